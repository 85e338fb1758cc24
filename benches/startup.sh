#!/usr/bin/env bash
# Times the start of `rowloom run`. Needs a GPU for the rows with cuda:0.
#
#   benches/startup.sh [ROWLOOM]      the program; target/release/rowloom by default
#
# 1. The first run with empty caches against the second: all caches are in a new
#    folder.
# 2. Process start to the first byte of the matrix that is read, with strace if it is installed, otherwise with a named pipe,
#    whose writer is released when the program opens it.
set -euo pipefail
rowloom=$(realpath "${1:-target/release/rowloom}")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

now_ms() { echo $(($(date +%s%N) / 1000000)); }

# Milliseconds of a command; its exit code is ignored, its output kept in $folder/log.
timed() {
    local begin
    begin=$(now_ms)
    "$@" >log 2>&1 || sed 's/^/    /' log >&2
    echo $(($(now_ms) - begin))
}

# Removes the contents of all caches.
clear_caches() {
    rm -rf home
    mkdir -p home/cache home/cuda
}
# Rowloom with caches in this folder only.
run() {
    env -u CUDA_CACHE_DISABLE HOME="$folder/home" XDG_CACHE_HOME="$folder/home/cache" \
        XDG_CONFIG_HOME="$folder/home/config" CUDA_CACHE_PATH="$folder/home/cuda" "$rowloom" "$@"
}

echo "| run gen:stencil27,n=32 --devices cuda:0 | first, ms | second, ms | difference, ms |"
echo "|---|---:|---:|---:|"
for k in 1 8 32; do
    for again in 1 2 3; do
        clear_caches
        first=$(timed run run gen:stencil27,n=32 -k "$k" --devices cuda:0)
        second=$(timed run run gen:stencil27,n=32 -k "$k" --devices cuda:0)
        echo "| K = $k, $again | $first | $second | $((first - second)) |"
    done
done

"$rowloom" generate stencil27,n=32 matrix.mtx >/dev/null

# Milliseconds from the start of the process to the first read of the matrix.
first_read_ms() {
    if command -v strace >/dev/null; then
        strace -f -qq -ttt -e trace=execve,openat -o calls "$rowloom" run matrix.mtx -k 8 --devices "$1" >log 2>&1 || true
        awk '/execve/ && !begin { begin = $2 } /matrix\.mtx/ && /openat/ { printf "%.1f", ($2 - begin) * 1000; exit }' calls
        return
    fi
    rm -f pipe.mtx
    mkfifo pipe.mtx
    local begin opened
    begin=$(date +%s%N)
    "$rowloom" run pipe.mtx -k 8 --devices "$1" >log 2>&1 &
    # Opening a pipe for writing waits for its reader.
    exec 3>pipe.mtx
    opened=$(date +%s%N)
    cat matrix.mtx >&3 || true
    exec 3>&-
    wait $! || true
    awk "BEGIN { printf \"%.1f\", ($opened - $begin) / 1e6 }"
}

echo
echo "| --devices | process start to the first byte read, ms (five runs) |"
echo "|---|---|"
for devices in cpu cuda:0 auto; do
    times=()
    for _ in 1 2 3 4 5; do times+=("$(first_read_ms "$devices")"); done
    echo "| $devices | ${times[*]} |"
done
