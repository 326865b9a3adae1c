#!/bin/bash
# Studies on a Ray cluster. On the first machine:
#   bash examples/cluster/studies_on_ray.sh head all --scale paper --out studies/paper
# and on every other one, before or while it runs:
#   bash examples/cluster/studies_on_ray.sh join FIRST-MACHINE
# Whoever reaches a Ray cluster can run code on it, so this one asks for a token. The first machine makes it, unless there
# is one; copy it (~/.ray/auth_token, or RAY_AUTH_TOKEN) to the others.
set -euo pipefail
export RAY_AUTH_MODE=token
port=${RAY_PORT:-6379}
case ${1:-} in
    head)
        shift
        ray get-auth-token --generate >/dev/null
        ray start --head --port "$port" --disable-usage-stats --include-dashboard false --block &
        trap 'kill $!; wait' EXIT # ends this cluster, and no other that runs here
        until ray status --address "127.0.0.1:$port" >/dev/null 2>&1; do
            kill -0 $! # or it has failed to start
            sleep 1
        done
        RAY_ADDRESS="127.0.0.1:$port" orthoframe study "$@" --engine ray
        ;;
    join)
        ray start --address "$2:$port" --disable-usage-stats --block
        ;;
    *)
        echo "usage: studies_on_ray.sh head STUDY OPTIONS... | join FIRST-MACHINE" >&2
        exit 2
        ;;
esac
