#!/usr/bin/env python3
"""eval --launcher slurm against a real Slurm: a controller and three nodes on this machine, in a temporary folder.

usage: slurm_test.py FASTKERNELS CASE, where CASE is Jobs, LostNode or Cancel

The nodes are slurmd processes with ports of their own; munge has a key and a socket of its own. Nothing needs systemd or
an installed configuration. Exits with 77 (skipped) where Slurm or munge is not installed.
"""
import getpass
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

NODES = ("fk1", "fk2", "fk3")
PATIENCE = 300  # seconds; the machine may be busy

# Blocks while the file does not exist, so that the test decides when a pair goes on.
CANDIDATE = """#include <fastkernels/candidate.h>
#include <math.h>
#include <unistd.h>
class SiluAndMul : public fk::SiluAndMul {
 public:
  using fk::SiluAndMul::SiluAndMul;
  const char* refuse(fk::Args) const override {
    while (access("%s", F_OK) != 0) usleep(20000);
    return "the baseline is good enough";
  }
  void forward(fk::Context&, fk::View, fk::View) override {}
};
FK_CANDIDATE(SiluAndMul)
"""


def program(name):
    return shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for s in sockets:
        s.bind(("127.0.0.1", 0))
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


def wait_for(what, condition, patience=PATIENCE):
    end = time.monotonic() + patience
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.1)
    raise AssertionError(f"not within {patience} s: {what}")


class Cluster:
    def __init__(self, folder):
        self.folder = folder
        self.processes = {}
        self.environment = dict(os.environ, SLURM_CONF=f"{folder}/slurm.conf")
        self.write_configuration()
        try:
            self.start_all()
        except BaseException:
            self.stop()
            raise

    def start_all(self):
        folder = self.folder
        self.start_munge()
        self.start("slurmctld", ["slurmctld", "-D", "-i"])
        for node in NODES:
            os.makedirs(f"{folder}/spool.{node}", exist_ok=True)
            self.start(node, ["slurmd", "-D", "-N", node])
        wait_for("idle nodes", lambda: self.command("sinfo", "-h", "-o", "%T").split() == ["idle"])

    def write_configuration(self):
        host = socket.gethostname().split(".")[0]
        ports = free_ports(1 + len(NODES))
        user = getpass.getuser()
        nodes = "\n".join(
            f"NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=2 RealMemory=100 Gres=gpu:2"
            for name, port in zip(NODES, ports[1:]))
        with open(f"{self.folder}/slurm.conf", "w") as f:
            f.write(f"""ClusterName=fk
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={self.folder}/munge.socket
CredType=cred/munge
StateSaveLocation={self.folder}/state
SlurmctldPidFile={self.folder}/slurmctld.pid
SlurmctldLogFile={self.folder}/slurmctld.log
SlurmdSpoolDir={self.folder}/spool.%n
SlurmdPidFile={self.folder}/slurmd.%n.pid
SlurmdLogFile={self.folder}/slurmd.%n.log
SlurmdParameters=config_overrides
ProctrackType=proctrack/pgid
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
GresTypes=gpu
MpiDefault=none
ReturnToService=0
SlurmdTimeout=10
KillWait=2
MinJobAge=600
{nodes}
PartitionName=all Nodes={",".join(NODES)} Default=YES State=UP MaxTime=INFINITE
""")
        with open(f"{self.folder}/gres.conf", "w") as f:
            # Slurm counts the files of GPUs; any device will do.
            f.write("Name=gpu File=/dev/zero\nName=gpu File=/dev/full\n")
        os.makedirs(f"{self.folder}/state")

    def start_munge(self):
        key = f"{self.folder}/munge.key"
        with open(key, "wb") as f:
            f.write(os.urandom(1024))
        os.chmod(key, 0o400)
        self.start("munged", ["munged", "--foreground", "--force", f"--key-file={key}",
                              f"--socket={self.folder}/munge.socket", f"--pid-file={self.folder}/munged.pid",
                              f"--log-file={self.folder}/munged.log", f"--seed-file={self.folder}/munged.seed"])
        wait_for("munge's socket", lambda: os.path.exists(f"{self.folder}/munge.socket"))

    def start(self, name, command):
        with open(f"{self.folder}/{name}.out", "w") as out:
            self.processes[name] = subprocess.Popen([program(command[0])] + command[1:], env=self.environment,
                                                    stdout=out, stderr=out, start_new_session=True)

    def command(self, *words):
        done = subprocess.run(words, env=self.environment, capture_output=True, text=True)
        return done.stdout

    def jobs(self, *states):
        """Ids of the jobs in these states."""
        return self.command("squeue", "-h", "-o", "%i", "-t", ",".join(states)).split()

    def lose(self, node):
        """The machine is gone: the node's daemon and everything it has started."""
        daemon = self.processes[node].pid
        gone = [daemon] + self.steps_of(node)
        gone += [p for g in gone for p in descendants(g)]
        # A machine that is gone reports nothing: all stop before the first one ends.
        for how in (signal.SIGSTOP, signal.SIGKILL):
            for pid in gone:
                try:
                    os.kill(pid, how)
                except ProcessLookupError:
                    pass
        self.processes[node].wait()

    def steps_of(self, node):
        """Slurm's process of a job is no child of the daemon; its name says nothing, its spool folder does."""
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/comm") as f:
                    name = f.read().strip()
                with open(f"/proc/{pid}/environ", "rb") as f:
                    environment = f.read()
                where = os.readlink(f"/proc/{pid}/cwd")
            except OSError:
                continue
            of_node = f"spool.{node}" in where or f"SLURMD_NODENAME={node}".encode() in environment
            if (name == "slurmstepd" and of_node) or f"SLURMD_NODENAME={node}\0".encode() in environment:
                if self.folder.encode() in environment:
                    found.append(int(pid))
        return found

    def stop(self):
        for name, process in reversed(list(self.processes.items())):
            if process.poll() is None:
                process.terminate()
        for process in self.processes.values():
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def descendants(pid):
    found = []
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as f:
            children = [int(c) for c in f.read().split()]
    except OSError:
        return []
    for child in children:
        found += [child] + descendants(child)
    return found


class Test:
    def __init__(self, fastkernels, folder):
        self.fastkernels = fastkernels
        self.folder = folder
        self.go = f"{folder}/go"
        os.makedirs(f"{folder}/candidate/L1")
        with open(f"{folder}/candidate/L1/silu_and_mul.cpp", "w") as f:
            f.write(CANDIDATE % self.go)
        self.cluster = Cluster(folder)
        self.environment = dict(self.cluster.environment, FASTKERNELS_HOME=f"{folder}/home", FASTKERNELS_CONFIG="",
                                FASTKERNELS_CANDIDATE_DIR=f"{folder}/candidate")
        self.environment.pop("MLFLOW_TRACKING_URI", None)

    def let_go(self):
        open(self.go, "w").close()

    def start(self, run, *more, models=("tiny-llama",)):
        command = [self.fastkernels, "eval", "--model", *models, "--load-format", "dummy", "--device", "cpu",
                   "--threads", "1", "--scale", "1/32", "--num-prompts", "4", "--rounds", "1", "--num-iters", "2",
                   "--launcher", "slurm", "--slurm-poll", "0.3", "--run-dir", f"{self.folder}/{run}", "--json", *more]
        return subprocess.Popen(command, env=self.environment, cwd=self.folder, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True)

    def end(self, process, code=0):
        try:
            out, err = process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
        assert process.returncode == code, f"exit code {process.returncode}\n{err}\n{self.logs()}"
        return out, err

    def logs(self):
        text = self.cluster.command("scontrol", "show", "job")
        for name in os.listdir(self.folder):
            if name.endswith(".log"):
                with open(f"{self.folder}/{name}") as f:
                    text += f"--- {name}\n" + "".join(f.readlines()[-15:])
        return text

    def started_side(self, run, pair):
        return lambda: os.path.exists(f"{self.folder}/{run}/{pair}/candidate_1.task.json")

    def jobs_case(self):
        self.let_go()
        out, _ = self.end(self.start("jobs", "--tp", "1", "2", "--sbatch-arg=--gres=gpu:1",
                                     models=("tiny-llama", "tiny-qwen3")))
        document = json.loads(out)
        assert len(document["items"]) == 3, out  # the heads of tiny-qwen3 cannot be divided by two
        assert any("tiny-qwen3 cannot be divided" in note for note in document["notes"]), out
        for item in document["items"]:
            assert item["status"] == "ok" and item["valid"], json.dumps(item)[:2000]
        assert document["score"]["macro_coverage"] == 1
        shown = self.cluster.command("scontrol", "show", "job")
        assert shown.count("JobState=COMPLETED") == 3, shown
        assert len(re.findall(r"(TresPerNode|TRES_PER_NODE)=gres[:/]gpu:1", shown)) == 3, shown

    def lost_node_case(self):
        process = self.start("lost")
        wait_for("the side with candidates", self.started_side("lost", "tiny-llama_tp1"))
        job = self.cluster.jobs("RUNNING")
        assert len(job) == 1, job
        node = self.cluster.command("squeue", "-h", "-o", "%N", "-j", job[0]).strip()
        before = os.stat(f"{self.folder}/lost/tiny-llama_tp1/reference.json").st_mtime_ns
        self.cluster.lose(node)
        self.let_go()
        out, err = self.end(process)
        assert "is started again" in err and job[0] in err, err
        item = json.loads(out)["items"][0]
        assert item["status"] == "ok" and item["valid"], json.dumps(item)[:2000]
        # What the lost node had finished was kept.
        assert os.stat(f"{self.folder}/lost/tiny-llama_tp1/reference.json").st_mtime_ns == before

    def cancel_case(self):
        process = self.start("cancel", models=("tiny-llama", "tiny-qwen3"))
        wait_for("the side with candidates", self.started_side("cancel", "tiny-llama_tp1"))
        process.send_signal(signal.SIGINT)
        _, err = self.end(process, 1)
        assert "--resume" in err, err
        wait_for("an empty queue", lambda: not self.cluster.jobs("PENDING", "RUNNING", "COMPLETING"))
        self.let_go()
        out, _ = self.end(self.start("cancel", "--resume", models=("tiny-llama", "tiny-qwen3")))
        assert [item["valid"] for item in json.loads(out)["items"]] == [True, True], out


def main():
    fastkernels, case = sys.argv[1:]
    missing = [p for p in ("sbatch", "slurmctld", "slurmd", "munged") if not program(p)]
    if missing:
        print(f"skipped: {', '.join(missing)} not installed; `tools/install_deps.sh slurm` installs it.")
        return 77
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    folder = os.path.realpath(tempfile.mkdtemp(prefix="fk-slurm-"))
    test = None
    try:
        test = Test(os.path.abspath(fastkernels), folder)
        {"Jobs": test.jobs_case, "LostNode": test.lost_node_case, "Cancel": test.cancel_case}[case]()
    finally:
        if test is not None:
            test.let_go()
            test.cluster.stop()
        shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
