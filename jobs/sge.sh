# shellcheck shell=bash disable=SC2034,SC2154
# Grid Engine's part of what common.sh asks for.

ranks=${NSLOTS:-1}
id=$JOB_ID
trap 'stop USR1' USR2  # with -notify: sent before the job is killed. USR1 is sent before it is suspended

# mpirun starts ranks on other nodes by qrsh.
export PRTE_MCA_plm_ssh_agent=${PRTE_MCA_plm_ssh_agent:-qrsh -inherit -nostdin -V}
export OMPI_MCA_plm_rsh_agent=${OMPI_MCA_plm_rsh_agent:-qrsh -inherit -nostdin -V}

time_limit() {
    local job
    job=$(qstat -j "$JOB_ID") || return
    sed -n 's/^hard.resource_list:.*h_rt=\([0-9]*\).*/\1/p' <<<"$job"
}

# A script that exits with 99 is put back into the queue.
run_again() { AGAIN=99; }
