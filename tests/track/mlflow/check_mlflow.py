"""What fastkernels stored equals what MLflow's own client reads back, through restarts of the server.

  check_mlflow.py FASTKERNELS TRACK_A_RUN SOURCE_FOLDER     (run by run.sh, in an environment that has MLflow)
"""

import atexit
import hashlib
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
import memory_folder  # noqa: E402,F401

os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
os.environ["MLFLOW_SERVER_ENABLE_JOB_EXECUTION"] = "false"  # eight processes that no test here needs
from mlflow.tracking import MlflowClient  # noqa: E402

FASTKERNELS, TRACK_A_RUN, SOURCE = (pathlib.Path(p).resolve() for p in sys.argv[1:4])
work = pathlib.Path(tempfile.mkdtemp(prefix="fastkernels-mlflow-"))
atexit.register(shutil.rmtree, work, ignore_errors=True)  # it may be in memory
environment = dict(os.environ, FASTKERNELS_HOME=str(work / "home"), FASTKERNELS_CANDIDATE_DIR=str(SOURCE / "tasks/candidate/examples"))


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def answers(port):
    with socket.socket() as s:
        return s.connect_ex(("127.0.0.1", port)) == 0


class Server:
    """`mlflow server`, which can be killed and restarted with its data."""

    def __init__(self):
        self.port = free_port()
        self.uri = f"http://127.0.0.1:{self.port}"

    def start(self):
        command = ["mlflow", "server", "--backend-store-uri", f"sqlite:///{work}/server.db", "--artifacts-destination",
                   str(work / "artifacts"), "--serve-artifacts", "--host", "127.0.0.1", "--port", str(self.port), "--workers", "1"]
        self.process = subprocess.Popen(command, stdout=open(work / "server.log", "a"), stderr=subprocess.STDOUT, start_new_session=True)
        wait_for(self.uri, self.process)

    def die(self):
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def wait_for(uri, process):
    for _ in range(1800):
        if process.poll() is not None:
            sys.exit("the server ended: " + (work / "server.log").read_text()[-2000:])
        try:
            if urllib.request.urlopen(uri + "/health", timeout=2).status == 200:
                return
        except OSError:
            time.sleep(0.1)
    sys.exit("the server did not come up")


def fastkernels(*arguments, **more):
    done = subprocess.run([FASTKERNELS, *arguments], env=dict(environment, **more), cwd=work, capture_output=True, text=True)
    assert done.returncode == 0, (arguments, done.stderr, done.stdout)
    return done


def kernels(*more, **env):
    return fastkernels("kernels", "--num-runs", "10", "--launches", "2", "--threads", "1", *more, **env)


def stored():
    """Every run of the store, with all that belongs to it."""
    ids = [r["run_id"] for r in json.loads(fastkernels("history", "--limit", "-1", "--json").stdout)]
    return [json.loads(fastkernels("history", "show", i, "--json").stdout) for i in ids]


STATES = {"finished": "FINISHED", "failed": "FAILED", "interrupted": "KILLED"}


def compare(client, run):
    """One run of the store with the run the server has of it."""
    record = run["run"]
    experiment = client.get_experiment_by_name(record["experiment"])
    assert experiment is not None, "no experiment " + record["experiment"]
    found = client.search_runs([experiment.experiment_id], f"tags.`fastkernels.run_id` = '{record['run_id']}'")
    assert len(found) == 1, (record["run_id"], len(found))
    remote = found[0]
    assert remote.info.run_name == record["name"]
    assert remote.info.status == STATES[record["status"]], (remote.info.status, record["status"])
    assert remote.info.start_time == record["started_us"] // 1000
    assert remote.info.end_time == record["ended_us"] // 1000
    assert remote.data.params == record["params"], (remote.data.params, record["params"])
    assert remote.data.metrics == record["metrics"], (remote.data.metrics, record["metrics"])
    for key, value in record["tags"].items():
        assert remote.data.tags[key] == value, key
    assert remote.data.tags.get("mlflow.source.git.commit", "") == record["git_commit"]
    assert remote.data.tags.get("device_name", "") == record["device_name"]
    for key in record["metrics"]:
        points = sorted((p.step, p.value, p.timestamp) for p in client.get_metric_history(remote.info.run_id, key))
        ours = sorted((p["step"], p["value"], p["time_us"] // 1000) for p in run["metrics"] if p["key"] == key)
        assert points == ours, (key, points, ours)
    for artifact in run["artifacts"]:
        local = client.download_artifacts(remote.info.run_id, artifact["path"], str(tempfile.mkdtemp(dir=work)))
        assert hashlib.sha256(pathlib.Path(local).read_bytes()).hexdigest() == artifact["sha256"], artifact["path"]
    return remote


NAMES = {"e2e throughput": {"tokens_per_second", "mean_ttft_ms", "mean_tpot_ms", "throughput_speedup", "baseline_tokens_per_second"},
         "e2e latency": {"avg_latency"},
         "eval": {"avg_throughput_speedup", "avg_latency_speedup", "alignment_rate", "macro_speedup", "macro_correctness", "macro_coverage",
                  "macro_score"}}


def has_the_names_of_its_tier(runs):
    """What users of MLflow look for in runs of models; compare() has found the same on the server."""
    for name, metrics in NAMES.items():
        run, = (r for r in runs if r["run"]["name"].startswith(name))
        assert run["run"]["tags"]["tier"] == name.split()[0], run["run"]["tags"]
        assert metrics <= run["run"]["metrics"].keys(), (name, sorted(run["run"]["metrics"]))
        assert any(a["path"] == f"results/{name.split()[0]}.json" for a in run["artifacts"]), run["artifacts"]


def same_filters(client):
    experiment = client.get_experiment_by_name("fastkernels").experiment_id
    for text in ["metrics.avg_speedup > 0.01 and tags.tier = 'kernel'", "metrics.softmax_passed >= 1", "tags.tier = 'ttft'",
                 "params.num_runs = '10'", "attributes.status = 'FINISHED' and metrics.total_failed = 0", "metrics.tpot_ms < 0",
                 "tags.tier = 'eval' and metrics.macro_score > 0", "tags.tier = 'e2e' and metrics.avg_latency > 0",
                 "run_name LIKE 'kernels%'", "attributes.run_name ILIKE 'KERNELS%' and params.threads != '7'"]:
        theirs = {r.data.tags["fastkernels.run_id"] for r in client.search_runs([experiment], text)}
        ours = {r["run_id"] for r in json.loads(fastkernels("history", "--limit", "-1", "--where", text, "--json").stdout)}
        assert theirs == ours, (text, theirs, ours)
        print(f"  {text}: {len(ours)}")


def import_a_large_run():
    """More of everything than one request may carry."""
    run = {"run_id": "large", "name": "large", "experiment": "fastkernels", "tier": "kernel", "status": "running", "started_us": 1_700_000_000_000_000,
           "device": "cpu", "cpu_name": "a CPU", "params": {f"p{i}": str(i) for i in range(250)}, "tags": {"tier": "kernel", "note": "x" * 4000}}
    points = [{"key": "loss", "value": 1 / (i + 1), "step": i, "time_us": 1_700_000_000_000_000 + i * 1000} for i in range(2500)]
    tags = {f"t{i}": "ü" * i for i in range(250)}
    events = [{"event": "run", "run": run}, {"event": "metrics", "points": points}, {"event": "tags", "values": tags},
              {"event": "artifact", "path": "logs/odd name ü.txt", "base64": "AP8="},
              {"event": "end", "status": "interrupted", "ended_us": 1_700_000_001_000_000}]
    (work / "large.jsonl").write_text("".join(json.dumps(e) + "\n" for e in events))
    fastkernels("history", "import", str(work / "large.jsonl"))


def import_small_runs(count):
    """Runs as `kernels` leaves them: parameters, metrics, three files."""
    events = []
    for i in range(count):
        start = 1_710_000_000_000_000 + i * 1_000_000
        run = {"run_id": f"small-{i}", "name": f"small {i}", "experiment": "fastkernels", "tier": "kernel", "status": "running", "started_us": start,
               "device": "cpu", "cpu_name": "a CPU", "params": {f"p{k}": str(k) for k in range(12)}, "tags": {"tier": "kernel"}}
        events += [{"event": "run", "run": run}, {"event": "metrics", "points": [{"key": "avg_speedup", "value": i, "step": 0, "time_us": start}]}]
        events += [{"event": "artifact", "path": path, "text": f"{path} {i}"} for path in ("kernels/softmax.cpp", "logs/softmax.txt", "results/kernels.json")]
        events.append({"event": "end", "status": "finished", "ended_us": start + 1000})
    (work / "small.jsonl").write_text("".join(json.dumps(e) + "\n" for e in events))
    fastkernels("history", "import", str(work / "small.jsonl"))


def requests_of_ui():
    """The changes that mlflow-ui requested from its server."""
    return (work / "home" / "history-mlflow.log").read_text().count('"POST ')


# Ignores the warning that the machine is busy.
def complaints(done):
    return "".join(line for line in done.stderr.splitlines(True) if "cores busy" not in line)


def ui_is_killed_in_the_middle(count):
    log, port = work / "home" / "history-mlflow.log", free_port()
    ui = subprocess.Popen([FASTKERNELS, "mlflow-ui", "--port", str(port)], env=environment, cwd=work, stdout=subprocess.DEVNULL)
    started = time.time()
    while not (log.exists() and log.read_text().count("runs/create") >= count) and time.time() - started < 200:
        time.sleep(0.02)
    ui.kill()
    ui.wait()
    while answers(port):  # its server ends by itself
        assert time.time() - started < 400, "the server outlived mlflow-ui"
        time.sleep(0.02)


def main():
    server = Server()
    server.start()
    client = MlflowClient(server.uri)
    live = {"MLFLOW_TRACKING_URI": server.uri + "/"}
    try:
        print("runs are mirrored as they are made")
        done = kernels("--target", "softmax", "--filter", "odd-tail", **live)
        assert complaints(done) == "", done.stderr
        fastkernels("ttft", "--model", "tiny-llama", "--load-format", "dummy", "--no-candidate-kernels", "--prompt-tokens", "8",
                    "--decode-tokens", "3", "--iters", "2", **live)
        model = ("--model", "tiny-llama", "--load-format", "dummy", "--threads", "1")
        fastkernels("e2e", "throughput", *model, "--no-candidate-kernels", "--num-prompts", "4", "--input-len", "16", "--output-len", "4",
                    "--compiled", "--no-generated-kernels", "--rounds", "3", "--repeats", "2", **live)
        fastkernels("e2e", "latency", *model, "--no-candidate-kernels", "--batch-size", "2", "--input-len", "16", "--output-len", "4",
                    "--num-iters-warmup", "1", "--num-iters", "3", **live)
        (work / "none").mkdir()
        fastkernels("eval", *model, "--num-prompts", "2", "--scale", "1/64", "--rounds", "3", **live, FASTKERNELS_CANDIDATE_DIR=str(work / "none"))
        subprocess.run([TRACK_A_RUN], env=dict(environment, **live), check=True, cwd=work, stdout=subprocess.DEVNULL)
        runs = stored()
        assert len(runs) == 6
        for run in runs:
            compare(client, run)
        has_the_names_of_its_tier(runs)
        assert any(a["path"] == "kernels/softmax.cpp" for r in runs for a in r["artifacts"])
        same_filters(client)

        print("the server dies in the middle of a run and comes back in it")
        command = [FASTKERNELS, "kernels", "--self-test", "--target", "silu_and_mul", "--model", "tiny-llama", "--filter", "tiny-llama/tp1/decode",
                   "--threads", "1",
                   "--num-runs", "20", "--launches", "2", "--output-json", "middle.json"]
        process = subprocess.Popen(command, env=dict(environment, **live), cwd=work, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
        journal = work / "middle.jsonl"
        while not (journal.exists() and '"operator"' in journal.read_text()):
            assert process.poll() is None, process.stderr.read()
            time.sleep(0.01)
        server.die()
        time.sleep(1)
        server.start()
        _, warnings = process.communicate()
        assert process.returncode == 0, warnings

        print("the server is away for a whole run")
        server.die()
        done = kernels("--self-test", "--target", "softmax", "--filter", "odd-tail", **live)
        assert "will be sent by the next run" in done.stderr, done.stderr
        server.start()
        kernels("--self-test", "--target", "softmax", "--filter", "odd-tail", **live)
        runs = stored()
        assert len(runs) == 9
        for run in runs:
            compare(client, run)
        assert len(client.search_runs([client.get_experiment_by_name("fastkernels").experiment_id])) == 9

        print("an address nobody answers at costs a benchmark nothing but a warning")
        done = kernels("--self-test", "--target", "softmax", "--filter", "odd-tail", MLFLOW_TRACKING_URI=f"http://127.0.0.1:{free_port()}")
        assert complaints(done).count("\n") == 1, done.stderr
    finally:
        server.die()

    print("mlflow-ui has everything, once")
    import_a_large_run()
    for count in [11, 51]:
        if count == 51:  # the second time, after one that was killed
            import_small_runs(40)
            ui_is_killed_in_the_middle(10)
        port = free_port()
        ui = subprocess.Popen([FASTKERNELS, "mlflow-ui", "--port", str(port)], env=environment, cwd=work, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True)
        try:
            line = ui.stdout.readline()
            assert f"http://127.0.0.1:{port}" in line, (line, ui.poll() is not None and ui.stderr.read())
            new = int(re.search(r"\((\d+) runs? new to it\)", line).group(1))
            # Those of the first time are not new again, nor those that were sent before the kill.
            assert new == 11 if count == 11 else 0 < new <= 40, line
            if count == 11:
                asked = requests_of_ui()
                assert asked <= 3 * 11 + 4, f"{asked} requests for 11 runs: three each, an experiment, and a large run's batches"
            client = MlflowClient(f"http://127.0.0.1:{port}")
            for run in stored():
                compare(client, run)
            assert len(client.search_runs([client.get_experiment_by_name("fastkernels").experiment_id])) == count
            taken = subprocess.run([FASTKERNELS, "mlflow-ui", "--port", str(port)], env=environment, capture_output=True, text=True)
            assert taken.returncode == 1 and "is taken" in taken.stderr, taken.stderr
            ui.send_signal(signal.SIGINT)
            assert ui.wait(30) == 0
            assert not answers(port), "the server outlived mlflow-ui"
        finally:  # nothing outlives a test that failed
            if ui.poll() is None:
                ui.terminate()
                ui.wait(30)
    print("MLflow reads back what was stored")


main()
