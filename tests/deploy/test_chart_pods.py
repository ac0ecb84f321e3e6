"""What the chart's pods may do, who selects them, and how they start and end."""

from typing import Any

import pytest

from tests.deploy.chart import KUBERNETES, VALUES, container, every, of_file, of_values, only, pods, problems

NAMES = [file.name.removesuffix("-values.yaml") for file in VALUES]
all_values = pytest.mark.parametrize("name", NAMES)

_VOLUMES = {
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "persistentVolumeClaim",
    "projected",
    "secret",
}


def restricted(spec: dict[str, Any]) -> list[str]:
    """What of a pod is against the restricted Pod Security Standard, control by control.

    https://kubernetes.io/docs/concepts/security/pod-security-standards/ ; the service runs on Linux.
    """
    found = [f"{key} is set" for key in ("hostNetwork", "hostPID", "hostIPC") if spec.get(key)]
    pod = spec.get("securityContext", {})
    if pod.get("sysctls"):
        found.append("sysctls are set")
    if pod.get("windowsOptions", {}).get("hostProcess"):
        found.append("hostProcess is set")
    for volume in spec.get("volumes", []):
        kinds = set(volume) - {"name"}
        if not kinds <= _VOLUMES:
            found.append(f"volume {volume['name']} is of {kinds}")
    for each in [*spec["containers"], *spec.get("initContainers", [])]:
        own = each.get("securityContext", {})
        name = each["name"]

        def said(key: str, own: dict[str, Any] = own) -> Any:
            return own.get(key, pod.get(key))

        found += [f"{name}: hostPort" for port in each.get("ports", []) if port.get("hostPort")]
        if own.get("privileged"):
            found.append(f"{name}: privileged")
        if own.get("allowPrivilegeEscalation") is not False:
            found.append(f"{name}: allowPrivilegeEscalation is not false")
        if said("runAsNonRoot") is not True:
            found.append(f"{name}: runAsNonRoot is not true")
        if said("runAsUser") == 0:
            found.append(f"{name}: runAsUser is 0")
        if (said("seccompProfile") or {}).get("type") not in {"RuntimeDefault", "Localhost"}:
            found.append(f"{name}: no seccompProfile")
        capabilities = own.get("capabilities", {})
        if "ALL" not in capabilities.get("drop", []):
            found.append(f"{name}: does not drop ALL")
        if not set(capabilities.get("add", [])) <= {"NET_BIND_SERVICE"}:
            found.append(f"{name}: adds capabilities")
        if own.get("procMount", "Default") != "Default":
            found.append(f"{name}: procMount")
        if (said("appArmorProfile") or {}).get("type", "RuntimeDefault") not in {"RuntimeDefault", "Localhost"}:
            found.append(f"{name}: appArmorProfile")
        if (said("seLinuxOptions") or {}).get("type", "") not in {
            "",
            "container_t",
            "container_init_t",
            "container_kvm_t",
        }:
            found.append(f"{name}: seLinuxOptions")
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            if each.get(probe, {}).get("httpGet", {}).get("host"):
                found.append(f"{name}: {probe} names a host")
    return found


@all_values
def test_every_pod_keeps_to_the_restricted_standard_and_more(name: str) -> None:
    found = dict(pods(of_file(name)))
    assert "StatefulSet" in " ".join(found)
    assert "Pod/" in " ".join(found)
    for who, pod in found.items():
        spec = pod["spec"]
        assert restricted(spec) == [], who
        # Beyond the standard: nothing may be written but volumes, and nothing is known of the cluster.
        assert spec["automountServiceAccountToken"] is False
        assert spec["enableServiceLinks"] is False
        for each in spec["containers"]:
            assert each["securityContext"]["readOnlyRootFilesystem"] is True
            mounts = {mount["mountPath"]: mount["name"] for mount in each["volumeMounts"]}
            # Refits and pictures write temporary files.
            volumes = {volume["name"]: volume for volume in spec["volumes"]}
            assert "emptyDir" in volumes[mounts["/tmp"]]


def test_a_pod_that_is_not_restricted_is_noticed() -> None:
    spec = {"containers": [{"name": "a", "ports": [{"hostPort": 1}]}], "volumes": [{"name": "b", "hostPath": {}}]}
    assert len(restricted(spec)) == 6


@all_values
def test_every_volume_that_is_mounted_is_there(name: str) -> None:
    objects = of_file(name)
    claims = {each["metadata"]["name"] for each in only(objects, "StatefulSet")["spec"].get("volumeClaimTemplates", [])}
    for who, pod in pods(objects):
        volumes = {volume["name"] for volume in pod["spec"]["volumes"]}
        if who.startswith("StatefulSet"):
            assert not volumes & claims
            volumes |= claims
        for each in pod["spec"]["containers"]:
            assert {mount["name"] for mount in each["volumeMounts"]} <= volumes


@all_values
def test_selectors_find_the_pods_of_the_service_and_no_others(name: str) -> None:
    objects = of_file(name)
    stateful = only(objects, "StatefulSet")
    selectors = [stateful["spec"]["selector"]]
    selectors += [{"matchLabels": each["spec"]["selector"]} for each in every(objects, "Service")]
    selectors += [each["spec"]["selector"] for each in every(objects, "PodDisruptionBudget")]
    if name in {"default", "production", "hostile"}:
        assert len(every(objects, "PodDisruptionBudget")) == 1
    spec = stateful["spec"]["template"]["spec"]
    selectors += [each["labelSelector"] for each in spec.get("topologySpreadConstraints", [])]
    for selector in selectors:
        for who, pod in pods(objects):
            assert _selects(selector, pod) == who.startswith("StatefulSet"), (who, selector)


def test_network_policies_are_about_the_pods_that_they_mean() -> None:
    objects = of_file("production")
    service, jobs = sorted(every(objects, "NetworkPolicy"), key=lambda each: len(each["metadata"]["name"]))
    for who, pod in pods(objects):
        own = who.startswith("StatefulSet")
        assert _selects(service["spec"]["podSelector"], pod) == own
        assert _selects(jobs["spec"]["podSelector"], pod) != own
        # The service lets in the release's jobs, and they may go there.
        (inward,) = service["spec"]["ingress"]
        assert _selects(inward["from"][0]["podSelector"], pod) != own
        outward = jobs["spec"]["egress"][-1]
        assert _selects(outward["to"][0]["podSelector"], pod) == own
    for policy in (service, jobs):
        assert policy["spec"]["policyTypes"] == ["Ingress", "Egress"]
    assert jobs["spec"]["ingress"] == []


def test_the_service_reaches_what_was_declared_and_nothing_else() -> None:
    policy = every(of_file("production"), "NetworkPolicy")[0]["spec"]
    reached = {(port["port"], port["protocol"], _peer(rule)) for rule in policy["egress"] for port in rule["ports"]}
    assert reached == {
        (53, "UDP", "kube-system"),
        (53, "TCP", "kube-system"),
        (9093, "TCP", "192.0.2.0/24"),
        (5432, "TCP", "198.51.100.7/32"),
        (443, "TCP", "any"),
    }
    assert [_peer({"to": [peer]}) for peer in policy["ingress"][0]["from"][1:]] == ["monitoring", "ingress-nginx"]
    # An embedded log and SQLite are reached without a network.
    embedded = every(of_values({"networkPolicy": {"enabled": True}}), "NetworkPolicy")[0]["spec"]
    assert {port["port"] for rule in embedded["egress"] for port in rule["ports"]} == {53}


@pytest.mark.parametrize(
    ("oidc", "ports", "reached"),
    [
        ({"issuer": "https://login.example.org/realms/a:1"}, [], {443}),
        ({"issuer": "https://kc:8443"}, [], {8443}),
        ({"issuer": "https://kc:8443/realms/ml", "jwks_url": "https://[2001:db8::1]:9443?a=b"}, [], {8443, 9443}),
        ({"issuer": "https://[2001:db8::1]", "jwks_url": "https://keys:9443"}, [], {443, 9443}),
        # Those that are named are all: a proxy's, for example.
        ({"issuer": "https://kc:8443"}, [3128], {3128}),
    ],
)
def test_the_provider_of_tokens_is_reached_where_it_is(
    oidc: dict[str, str], ports: list[int], reached: set[int]
) -> None:
    policy = {"enabled": True, "egress": {"oidc": {"ports": ports}}}
    objects = of_values({"networkPolicy": policy, "config": {"access": {"oidc": {**oidc, "audience": "monitor"}}}})
    rules = every(objects, "NetworkPolicy")[0]["spec"]["egress"]
    (rule,) = (rule for rule in rules if 53 not in {port["port"] for port in rule["ports"]})
    assert "to" not in rule
    assert [port["protocol"] for port in rule["ports"]] == ["TCP"] * len(reached)
    assert {port["port"] for port in rule["ports"]} == reached
    assert [problem for each in objects for problem in problems(each, KUBERNETES[0])] == []


def test_probes_ask_what_they_are_for() -> None:
    each = container(of_file("default"))
    paths = {probe: each[probe]["httpGet"]["path"] for probe in ("startupProbe", "livenessProbe", "readinessProbe")}
    assert paths == {"startupProbe": "/healthz", "livenessProbe": "/healthz", "readinessProbe": "/readyz"}
    # The store is awaited for half a minute, and kernels that have to be compiled take minutes on a small node.
    assert each["startupProbe"]["periodSeconds"] * each["startupProbe"]["failureThreshold"] >= 180
    assert each["ports"] == [{"name": "http", "containerPort": 8000, "protocol": "TCP"}]
    other = of_values({"config": {"api": {"port": 9000}}})
    assert container(other)["ports"][0]["containerPort"] == 9000
    assert all(service["spec"]["ports"][0]["targetPort"] == "http" for service in every(other, "Service"))


@all_values
def test_a_pod_has_time_to_save_what_it_read(name: str) -> None:
    spec = only(of_file(name), "StatefulSet")["spec"]["template"]["spec"]
    command = (
        spec["containers"][0].get("lifecycle", {}).get("preStop", {}).get("exec", {}).get("command", ["sleep", "0"])
    )
    # The service ends within ten seconds: monitor.app.service.
    assert spec["terminationGracePeriodSeconds"] >= int(command[1]) + 15


def test_a_replica_has_a_name_in_the_group_that_outlives_its_restart() -> None:
    env = {each["name"]: each for each in container(of_file("production"))["env"]}
    source = env["MONITOR__SOURCE__KAFKA__GROUP_INSTANCE_ID"]["valueFrom"]
    assert source == {"fieldRef": {"fieldPath": "metadata.name"}}
    assert "MONITOR__SOURCE__KAFKA__GROUP_INSTANCE_ID" not in str(container(of_file("default")))


def test_state_is_where_the_volume_is() -> None:
    objects = of_file("default")
    (claim,) = only(objects, "StatefulSet")["spec"]["volumeClaimTemplates"]
    mounts = {mount["name"]: mount["mountPath"] for mount in container(objects)["volumeMounts"]}
    text = only(objects, "ConfigMap")["data"]["monitor.yaml"]
    assert f"url: sqlite:///{mounts[claim['metadata']['name']]}/state.db" in text
    assert f"directory: {mounts[claim['metadata']['name']]}/log" in text
    # What cannot be changed later holds nothing that changes with the chart.
    assert "helm.sh/chart" not in str(claim)


def test_an_image_by_digest_is_exactly_that() -> None:
    digest = "sha256:" + "0123456789abcdef" * 4
    assert container(of_file("production"))["image"] == f"registry.example.org/ml/calibration-monitor@{digest}"
    assert container(of_file("hostile"))["image"] == "localhost:5000/ml/calibration-monitor:1.10"
    images = {each["image"] for _, pod in pods(of_file("production")) for each in pod["spec"]["containers"]}
    assert len(images) == 1


def test_openshift_may_choose_the_user() -> None:
    spec = only(
        of_values({"podSecurityContext": {"runAsUser": None, "runAsGroup": None, "fsGroup": None}}), "StatefulSet"
    )["spec"]["template"]["spec"]
    assert not {"runAsUser", "runAsGroup", "fsGroup"} & set(spec["securityContext"])
    assert restricted(spec) == []


def test_scaling_by_lag_stays_within_the_partitions() -> None:
    objects = of_file("production")
    scaled = only(objects, "ScaledObject")["spec"]
    assert "replicas" not in only(objects, "StatefulSet")["spec"]
    assert scaled["scaleTargetRef"] == {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "name": only(objects, "StatefulSet")["metadata"]["name"],
    }
    assert scaled["maxReplicaCount"] == 12
    assert [trigger["metadata"]["topic"] for trigger in scaled["triggers"]] == ["predictions", "outcomes"]
    for trigger in scaled["triggers"]:
        assert trigger["metadata"] == {
            "bootstrapServers": "kafka-0.kafka.example.org:9093,kafka-1.kafka.example.org:9093",
            "consumerGroup": "calibration-monitor",
            "topic": trigger["metadata"]["topic"],
            "lagThreshold": "1000000",
            "offsetResetPolicy": "earliest",
            "allowIdleConsumers": "false",
            "sasl": "scram_sha512",
            "tls": "enable",
        }
        assert trigger["authenticationRef"]["name"] == only(objects, "TriggerAuthentication")["metadata"]["name"]
    named = {
        each["parameter"]: (each["name"], each["key"])
        for each in only(objects, "TriggerAuthentication")["spec"]["secretTargetRef"]
    }
    assert named == {
        "username": ("calibration-kafka", "username"),
        "password": ("calibration-kafka", "password"),
        "ca": ("kafka-ca", "ca.crt"),
    }


def _selects(selector: dict[str, Any], pod: dict[str, Any]) -> bool:
    labels = pod["metadata"]["labels"]
    exactly = all(labels.get(key) == value for key, value in selector.get("matchLabels", {}).items())
    return exactly and all(
        labels.get(each["key"]) in each["values"]
        for each in selector.get("matchExpressions", [])
        if each["operator"] == "In"
    )


def _peer(rule: dict[str, Any]) -> str:
    if "to" not in rule:
        return "any"
    (peer,) = rule["to"]
    if "ipBlock" in peer:
        return str(peer["ipBlock"]["cidr"])
    return str(peer["namespaceSelector"]["matchLabels"]["kubernetes.io/metadata.name"])
