#!/usr/bin/env bash
# Installs the chart into a cluster of its own, and looks whether it does what it says. For a CI that has Docker.
#
#   deploy/kind.sh            # builds the image, makes a kind cluster, installs, tests, upgrades, and removes the cluster
#   KEEP=1 deploy/kind.sh     # leaves the cluster, to look around
#   IMAGE=registry.example.org/ml/calibration-monitor:0.1.0 deploy/kind.sh    # an image that is there already
#
# Needs docker, kind, kubectl, helm and python3. Takes about ten minutes, most of them for the image.
set -euo pipefail
cd "$(dirname "$0")/.."

CLUSTER=${CLUSTER:-calibration-monitor-$$}
NAMESPACE=calibration
RELEASE=calibration
NAME=$RELEASE-calibration-monitor
WORK=$(mktemp -d)
export KUBECONFIG=$WORK/kubeconfig

say() { printf '\n== %s\n' "$*"; }

finish() {
    status=$?
    if [ "$status" -ne 0 ] && [ -s "$KUBECONFIG" ]; then
        say "it failed; what the cluster says"
        kubectl --namespace "$NAMESPACE" get all,pvc --output wide || true
        kubectl --namespace "$NAMESPACE" get events --sort-by=.lastTimestamp | tail -n 40 || true
        kubectl --namespace "$NAMESPACE" logs "statefulset/$NAME" --tail=60 || true
    fi
    if [ -n "${KEEP:-}" ]; then
        say "kept: export KUBECONFIG=$KUBECONFIG; kind delete cluster --name $CLUSTER"
    else
        kind delete cluster --name "$CLUSTER" --kubeconfig "$KUBECONFIG" || true
        rm -rf "$WORK"
    fi
    exit "$status"
}

for program in docker kind kubectl helm python3; do
    command -v "$program" > /dev/null || { echo "deploy/kind.sh needs $program" >&2; exit 2; }
done
trap finish EXIT

if [ -z "${IMAGE:-}" ]; then
    IMAGE=calibration-monitor:kind
    say "image $IMAGE"
    docker build --file deploy/Dockerfile --tag "$IMAGE" .
fi

say "cluster $CLUSTER"
kind create cluster --name "$CLUSTER" --kubeconfig "$KUBECONFIG" --wait 3m
kind load docker-image "$IMAGE" --name "$CLUSTER"
kubectl create namespace "$NAMESPACE"
# The cluster itself refuses pods that are not restricted.
kubectl label namespace "$NAMESPACE" pod-security.kubernetes.io/enforce=restricted

say "the API server looks at every values file"
for values in helm/ci/*-values.yaml; do
    # Of custom resources it knows nothing, unless their operators are installed.
    helm template look helm --namespace "$NAMESPACE" --values "$values" \
        --set serviceMonitor.enabled=false --set rules.enabled=false --set keda.enabled=false \
        | kubectl apply --namespace "$NAMESPACE" --dry-run=server --filename - > "$WORK/looked"
    echo "$values: $(wc -l < "$WORK/looked") objects"
done

install() {
    helm upgrade --install "$RELEASE" helm --namespace "$NAMESPACE" --wait --timeout 5m \
        --set image.repository="${IMAGE%:*}" --set image.tag="${IMAGE##*:}" --set image.pullPolicy=Never \
        --set networkPolicy.enabled=true --set config.evaluation.interval=1s --set config.models.defaults.allowed_lateness=1m "$@"
}

say "install"
install
helm test "$RELEASE" --namespace "$NAMESPACE" --logs

say "a first key, and events"
KEY=$(kubectl exec --namespace "$NAMESPACE" "$NAME-0" -- monitor keys create ci --role write --role promote 2> "$WORK/said") \
    || { cat "$WORK/said" >&2; exit 1; }
# From within the pod, since the network policy lets in nobody else; the key by the environment of its process.
inside() {
    kubectl exec --stdin --namespace "$NAMESPACE" "$NAME-0" -- \
        sh -c 'read -r MONITOR_API_KEY; export MONITOR_API_KEY; exec python - "$@"' inside "$@"
}
{ echo "$KEY"; cat deploy/kind_events.py; } | inside send 2000

say "upgrade with a changed setting: the pod is new, its state is not"
before=$(kubectl get pod --namespace "$NAMESPACE" "$NAME-0" --output jsonpath='{.metadata.uid}')
install --set config.evaluation.interval=2s
after=$(kubectl get pod --namespace "$NAMESPACE" "$NAME-0" --output jsonpath='{.metadata.uid}')
[ "$before" != "$after" ] || { echo "a changed setting did not replace the pod" >&2; exit 1; }
{ echo "$KEY"; cat deploy/kind_events.py; } | inside look 2000
helm test "$RELEASE" --namespace "$NAMESPACE" --logs

say "uninstall leaves the volume"
helm uninstall "$RELEASE" --namespace "$NAMESPACE" --wait
kubectl get pvc --namespace "$NAMESPACE" "data-$NAME-0"
say "all went well"
