#!/usr/bin/env bash
# Sets a machine up for fabriclab. Usage: provision.sh [packages] [environment] [kernel] [examples] [vm]; by default the
# first three. What examples/ runs on, and what tests look at pages, the Vagrantfile and a bare Debian with, is optional:
# tests without it are skipped. vm makes the machine that it runs on the lab VM.
# A step that is done already is skipped. The Makefile and the Vagrantfile both use this script.
set -eu

if [ "$(uname -s)" != Linux ]; then
    printf 'provision.sh: this is %s, and fabriclab runs on Linux: type "vagrant up", then "vagrant ssh" (docs/vm.md)\n' \
        "$(uname -s)" >&2
    exit 1
fi

here=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
system_python=/usr/bin/python3

needed=(
    openvswitch-switch mininet python3-pyverbs ibverbs-providers rdma-core  # switches, hosts, RoCE
    tcpdump iperf3 perftest ethtool iproute2 iputils-ping                   # captures, traffic, link settings
    tshark                                                                  # reads captures in tests: another judge
    python3-cryptography                                                    # keys between the workers of a sweep
    gcc make flex bison bc libelf-dev xz-utils patch                        # what builds the lab kernel
    python3 python3-dev python3-venv                                        # what builds the environment
)

optional=(
    python3-torch python3-mpi4py openmpi-bin  # what examples/ runs on, beside the above
    vagrant debootstrap                       # tests of the Vagrantfile, and of this script on a bare Debian
)
is_ubuntu() { [[ -r /etc/os-release && $(</etc/os-release) == *ID=ubuntu* ]]; }
# Tests look at pages with it, as a reader would. Ubuntu's is a snap, which is not ours to install.
is_ubuntu || optional+=(chromium chromium-driver)

in_vm=(kmod python-is-python3)  # modprobe; and `python`, which Debian does not call it by itself
# What the real clock needs of a stock kernel: the switch, the queues of its ports, and two algorithms of TCP.
modules=(openvswitch veth sch_netem sch_tbf sch_prio sch_red sch_htb cls_u32 tcp_dctcp tcp_bbr)

scratch=()
trap 'rm -rf "${scratch[@]}"' EXIT

stop() {
    printf 'provision.sh: %s\n' "$*" >&2
    exit 1
}

installed() { [ "$(dpkg-query --show --showformat='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }

packages() { have packages "${needed[@]}"; }

# Sets missing: those of the packages that are not installed.
find_missing() {
    local package
    missing=()
    for package; do
        installed "$package" || missing+=("$package")
    done
}

# Installs what is missing of the packages, for a step.
have() {
    local step=$1 missing
    shift
    find_missing "$@"
    if [ ${#missing[@]} = 0 ]; then
        echo "$step: all $# are installed already"
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
    "$building/bin/python" -W ignore::SyntaxWarning -m compileall -q -f --invalidation-mode unchecked-hash \
        -s "$building" -p "$own" "$building/lib" >/dev/null || true # some packages carry templates that are no Python
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

# The lab kernel is User-Mode Linux, which other processors do not run.
kernel() {
    local machine
    machine=$(uname -m)
    if [ "$machine" = x86_64 ]; then
        "$here/run_experiment" kernel build
    else
        echo "kernel: none: the lab kernel runs on x86-64 only, this machine is $machine: use --clock real"
    fi
}

# Nothing here is a failure: who cannot have a package does without.
examples() {
    local missing
    find_missing "${optional[@]}"
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

# The lab VM: its kernel's modules, now and at every boot; a login begins in the project's folder; Jupyter answers from
# outside, as the Vagrantfile forwards its port. Ends with what to type.
vm() {
    [ "$(id -u)" = 0 ] || stop "vm: it sets up this system itself, so it needs root: sudo $here/provision.sh vm"
    have vm "${in_vm[@]}"
    load_modules
    put /etc/modules-load.d/fabriclab.conf "$(printf '%s\n' "${modules[@]}")"
    put /etc/profile.d/fabriclab.sh "case \$- in *i*) [ \"\$PWD\" != ~ ] || cd '$here' ;; esac"
    put /etc/jupyter/jupyter_server_config.json '{"ServerApp": {"ip": "0.0.0.0", "open_browser": false}}'
    what_to_type
}

load_modules() {
    local kernel lacking=() module mend
    kernel=$(uname -r)
    mend="apt-get install linux-image-$(is_ubuntu && echo generic || dpkg --print-architecture), then boot that one"
    if [ ! -d "/lib/modules/$kernel" ]; then
        echo "vm: no modules of this kernel ($kernel) are here, so --clock real has what is built into it: $mend"
        return
    fi
    for module in "${modules[@]}"; do
        modprobe --quiet "$module" || lacking+=("$module")
    done
    [ ${#lacking[@]} = 0 ] || echo "vm: this kernel ($kernel) is without ${lacking[*]}: --clock real needs them: $mend"
}

# Writes a file, unless it says that already.
put() {
    local path=$1 content=$2
    if [ "$(cat "$path" 2>/dev/null)" = "$content" ]; then
        echo "vm: $path is there already"
    else
        mkdir -p "${path%/*}"
        printf '%s\n' "$content" >"$path"
        echo "vm: $path written"
    fi
}

what_to_type() {
    echo
    echo "The lab VM is ready. Type:"
    echo "    vagrant ssh                                              on your own computer: a shell in this VM"
    echo "    sudo python run_experiment check                         what runs here"
    echo "    sudo python run_experiment calibrate --hosts 9           how fast it can be trusted"
    echo "    sudo python run_experiment incast --clock real --set rate=100Mbps --set senders=8"
    echo "                                                             live, on this VM's kernel"
    [ "$(uname -m)" != x86_64 ] ||
        echo "    ./run_experiment incast                                  in virtual time: exact at any rate, no root"
    echo "    make notebook                                            Jupyter; open the 127.0.0.1 address it prints"
}

[ $# -gt 0 ] || set -- packages environment kernel
for step; do
    case $step in
        packages | environment | kernel | examples | vm) ;;
        *)
            printf 'provision.sh: %s is no step: packages, environment and kernel are, and examples, vm\n' "$step" >&2
            exit 2
            ;;
    esac
done
for step; do "$step"; done
