#!/usr/bin/env bash
# Measures every matrix below a folder beside other libraries and makes the performance explorer of the results. Run it on a machine
# that does nothing else.
#
#   benches/explorer.sh MATRICES RESULTS [FLAG...]
#
# MATRICES  folder with .mtx, .mtx.gz, .npz, .rlm or SuiteSparse .tar.gz files, in any depth
# RESULTS   folder for one .json file per matrix and explorer.html
# FLAG      flags of `rowloom bench`; by default: -k 1,8,32,128 --dtype f64,f32 --against mkl,scipy, and cusparse on a card
#
# ROWLOOM names the program, target/release/rowloom by default. MKL and SciPy need ROWLOOM_PYTHON, a Python that has them. A matrix
# with a complete .json file is not measured again, so an interrupted call continues.
set -euo pipefail
if [ $# -lt 2 ]; then
    sed -n '2,/^set/p' "$0" | sed -n 's/^# \{0,1\}//p' >&2
    exit 2
fi
rowloom=$(realpath "${ROWLOOM:-target/release/rowloom}")
matrices=$1 results=$2
shift 2
mkdir -p "$results"
if [ $# -eq 0 ]; then
    against=mkl,scipy
    if command -v nvidia-smi >/dev/null && nvidia-smi -L >/dev/null 2>&1; then against=$against,cusparse; fi
    set -- -k 1,8,32,128 --dtype f64,f32 --against "$against"
fi

failed=0
while IFS= read -r -d '' matrix; do
    name=${matrix#"$matrices"/}
    json="$results/${name//\//__}.json"
    [ -s "$json" ] && continue
    echo "$name" >&2
    # A wrong Y ends with code 5, and its report is complete; other failures leave no report.
    "$rowloom" bench "$matrix" "$@" --best --json="$json" || failed=$((failed + 1))
done < <(find "$matrices" -type f \( -name '*.mtx' -o -name '*.mtx.gz' -o -name '*.npz' -o -name '*.rlm' -o -name '*.tar.gz' \) -print0 | sort -z)
[ "$failed" -eq 0 ] || echo "$failed matrices were not measured or have a wrong result" >&2

# All matrices of this and earlier calls.
mapfile -d '' -t files < <(find "$results" -maxdepth 1 -name '*.json' -print0 | sort -z)
"$rowloom" report "${files[@]}" --output "$results/explorer.html" --title "Performance explorer: ${matrices##*/}"
