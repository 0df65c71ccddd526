#!/usr/bin/env bash
# Sets a machine up for fabriclab. Usage: provision.sh [packages] [environment] [kernel] [examples]; by default the
# first three. What examples/ runs on, and the browser that tests look at pages with, is optional: tests without it are
# skipped.
# A step that is done already is skipped. The Makefile and the Vagrantfile both use this script.
set -eu

here=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
system_python=/usr/bin/python3

needed=(
    openvswitch-switch mininet python3-pyverbs ibverbs-providers rdma-core  # switches, hosts, RoCE
    tcpdump iperf3 perftest ethtool iproute2 iputils-ping                   # captures, traffic, link settings
    tshark                                                                  # reads captures in tests: another judge
    gcc make flex bison bc libelf-dev xz-utils patch                        # what builds the lab kernel
    python3 python3-dev python3-venv                                        # what builds the environment
)

optional=(python3-torch python3-mpi4py openmpi-bin)  # what examples/ runs on, beside the above
# Tests look at pages with it, as a reader would. Ubuntu's is a snap, which is not ours to install.
[[ -r /etc/os-release && $(</etc/os-release) == *ID=ubuntu* ]] || optional+=(chromium chromium-driver)

scratch=()
trap 'rm -rf "${scratch[@]}"' EXIT

stop() {
    printf 'provision.sh: %s\n' "$*" >&2
    exit 1
}

installed() { [ "$(dpkg-query --show --showformat='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }

packages() {
    local missing=() package
    for package in "${needed[@]}"; do
        installed "$package" || missing+=("$package")
    done
    if [ ${#missing[@]} = 0 ]; then
        echo "packages: all ${#needed[@]} are installed already"
    else
        choose_root "${missing[@]}"
        install "${missing[@]}"
    fi
}

# Sets as_root: the command in front of apt-get.
choose_root() {
    local by_hand
    as_root=()
    command -v apt-get >/dev/null || stop "packages: no apt-get (not Debian or Ubuntu): install by hand: $*"
    if [ "$(id -u)" != 0 ]; then
        by_hand="as root run: apt-get install --no-install-recommends $*"
        command -v sudo >/dev/null || stop "packages: not root, and no sudo here: $by_hand"
        sudo true || stop "packages: not root, and sudo refuses: $by_hand"
        as_root=(sudo)
    fi
}

apt() {
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=1 \
        apt-get --quiet --yes -o DPkg::Lock::Timeout=600 "$@"
}

install() {
    local deny
    echo "packages: installing with ${as_root[*]:+${as_root[*]} }apt-get: $*"
    deny=$(mktemp --directory) && scratch+=("$deny")
    # A package's scripts start its service through these two names. Where dpkg finds /bin/true under them
    # instead, nothing starts, and unlike with a policy-rc.d nothing is left on the system if we are killed.
    ln -s /bin/true "$deny/invoke-rc.d"
    ln -s /bin/true "$deny/deb-systemd-invoke"
    download "$@"
    apt -o "DPkg::Path=$deny:/usr/sbin:/usr/bin:/sbin:/bin" --no-install-recommends install "$@" ||
        stop "packages: apt-get failed (see above): mend that, then run $here/provision.sh packages"
    # A switch that starts at every boot is not ours to add: a run starts its own.
    case " $* " in *" openvswitch-switch "*) "${as_root[@]}" update-rc.d openvswitch-switch disable ;; esac
}

# The package lists are renewed only when they do not lead to the packages.
download() {
    local fetch=(--no-install-recommends --download-only install "$@")
    apt "${fetch[@]}" 2>/dev/null && return
    echo "packages: not to be had by the package lists of this machine: renewing them"
    { apt update && apt "${fetch[@]}"; } ||
        stop "packages: apt-get cannot download (see above): check the network and apt's sources," \
            "then run $here/provision.sh packages"
}

environment_is_ready() {
    local python
    python=$("$system_python" "$here/lab/cache.py") && echo "environment: already at ${python%/bin/python}"
}

environment() {
    local own
    "$system_python" -c 'import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 9))' 2>/dev/null ||
        stop "environment: needs $system_python 3.9 or later with venv: run $here/provision.sh packages"
    environment_is_ready && return
    own=$("$system_python" "$here/lab/cache.py" --own)
    { mkdir -p "${own%/*}" && exec 9>"$own.lock"; } 2>/dev/null ||
        stop "environment: cannot write to ${own%/*}: set FABRICLAB_CACHE to a folder that you can write to"
    flock --nonblock 9 || { echo "environment: another set-up is building it: waiting"; flock 9; }
    environment_is_ready || build_environment "$own"
    exec 9>&-
}

# Built beside and renamed when complete: an interrupted build is never taken for a finished one.
build_environment() {
    local own=$1 building=$1.building
    echo "environment: building $own: downloads about 200 MB of Python packages, 1.2 GB on disk; two to five minutes"
    unset PYTHONHOME PYTHONPATH
    rm -rf "$building" && scratch+=("$building")
    "$system_python" -m venv "$building" || stop "environment: cannot make $building (the message is above)"
    pip "$building" --only-binary :all: --requirement "$here/requirements/requirements.txt"
    pip "$building" --no-deps --no-build-isolation --use-pep517 --requirement "$here/requirements/sources.txt"
    # Compiled modules that are valid whatever the times of the files say: a copied environment runs as the first did.
    "$building/bin/python" -m compileall -q -f --invalidation-mode unchecked-hash -s "$building" -p "$own" \
        "$building/lib" >/dev/null || true # some packages carry templates that are no Python
    # Only now do the system's packages (Mininet, pyverbs) come in sight: pip must not count on any of them.
    sed -i 's/^\(include-system-site-packages\) = false/\1 = true/' "$building/pyvenv.cfg"
    grep -rlIF "$building" "$building/bin" "$building/pyvenv.cfg" | xargs sed -i "s|$building|$own|g"
    mv --no-target-directory "$building" "$own"
}

# pip install, exactly what the lock says, whatever pip's settings on this machine say.
pip() {
    local environment=$1
    shift
    env --unset=PIP_FIND_LINKS PIP_CONSTRAINT=/dev/null PIP_DISABLE_PIP_VERSION_CHECK=1 \
        "$environment/bin/python" -m pip install --quiet --quiet --no-user --require-hashes "$@" ||
        stop "environment: pip failed (see above): check the network, then run $here/provision.sh environment"
}

kernel() { "$here/run_experiment" kernel build; }

# Nothing here is a failure: who cannot have a package does without.
examples() {
    local missing=() package
    for package in "${optional[@]}"; do
        installed "$package" || missing+=("$package")
    done
    if [ ${#missing[@]} = 0 ]; then
        echo "examples: all ${#optional[@]} packages are installed already"
    else
        (install_listed "${missing[@]}") || echo "examples: done without ${missing[*]} (the reason is above)"
    fi
}

# Those of the packages that the package lists have.
install_listed() {
    local listed=() package
    trap 'rm -rf "${scratch[@]}"' EXIT # a subshell has its own
    choose_root "$@"
    apt-cache show "$@" >/dev/null 2>&1 || apt update || true
    for package; do
        if apt-cache show "$package" >/dev/null 2>&1; then
            listed+=("$package")
        else
            echo "examples: $package is in no package list of this machine: left out"
        fi
    done
    [ ${#listed[@]} = 0 ] || install "${listed[@]}"
}

[ $# -gt 0 ] || set -- packages environment kernel
for step; do
    case $step in
        packages | environment | kernel | examples) ;;
        *)
            printf 'provision.sh: %s is no step: packages, environment and kernel are, and examples\n' "$step" >&2
            exit 2
            ;;
    esac
done
for step; do "$step"; done
