"""mpirun on the fabric: it runs on one host and starts its ranks on the others through a stand-in for ssh of ours.

Made for Open MPI (its settings are OMPI_MCA_*, see ompi_info(1)); MPICH's Hydra takes the same stand-in.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from workloads.launch import End, own_name

_PROGRAM = "mpirun"

# A rank as mpirun starts it: output and times into files, like those of ranks that we start.
_RANK = """
folder=$1; shift
rank=${OMPI_COMM_WORLD_RANK:-$PMI_RANK}
export RANK="$rank" FABRICLAB_HOST="$(cat /proc/sys/kernel/hostname)" FABRICLAB_RESULTS="$folder/$rank"
begin=$(date +%s%N)
"$@" >"$folder/$rank.out" 2>"$folder/$rank.err"
status=$?
echo "$begin $(date +%s%N) $status" >"$folder/$rank.status"
exit $status
"""


def settings(agent: Path) -> dict[str, str]:
    """The environment by which mpirun uses the fabric alone: daemons and messages go over eth0, and who waits lets
    others run."""
    return {
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "OMPI_MCA_plm_rsh_agent": str(agent),
        "OMPI_MCA_plm_rsh_no_tree_spawn": "1",
        "OMPI_MCA_oob_tcp_if_include": "eth0",
        "OMPI_MCA_pml": "ob1",
        "OMPI_MCA_btl": "tcp,self",
        "OMPI_MCA_btl_tcp_if_include": "eth0",
        "OMPI_MCA_hwloc_base_binding_policy": "none",
        "OMPI_MCA_mpi_yield_when_idle": "1",
        "HYDRA_LAUNCHER": "ssh",
        "HYDRA_LAUNCHER_EXEC": str(agent),
        "HYDRA_IFACE": "eth0",
    }


def words(ranks: int, hostfile: Path, folder: Path, program: Sequence[str]) -> tuple[str, ...]:
    """The command that starts so many ranks of `program`, whose output and ends come into `folder`."""
    return (
        _PROGRAM,
        "-n",
        str(ranks),
        "--hostfile",
        str(hostfile),
        "/bin/sh",
        "-c",
        _RANK,
        "rank",
        str(folder),
        *program,
    )


def write_agent(path: Path, hosts: Sequence[Any]) -> None:
    """The stand-in for ssh: `agent HOST WORDS` runs the words, joined as a shell's command, on that host."""
    cases = "\n".join(f"{host.name}) set -- {shlex.join(host.enter_command())} ;;" for host in hosts)
    path.write_text(
        "#!/bin/sh\n"
        'while [ "${1#-}" != "$1" ]; do shift; done\n'
        'host=$1; shift; command="$*"\n'
        f'case "$host" in\n{cases}\n*) echo "no host $host" >&2; exit 255 ;;\nesac\n'
        f'exec "$@" {shlex.join(own_name(hosts[0].is_ours))} "$host" /bin/sh -c "$command"\n'
    )
    path.chmod(0o755)


def ends(folder: Path, ranks: int) -> dict[int, End]:
    """Rank -> how it ended, of the ranks that have ended by themselves."""
    found = {}
    for rank in range(ranks):
        path = folder / f"{rank}.status"
        if path.is_file():
            found[rank] = End(*map(int, path.read_text().split()))
            path.unlink()
    return found
