"""The dashboard's server as a client sees it: what it serves, to whom, and what it refuses."""
import http.client
import json
import os
import subprocess
import sys
import tempfile
import unittest
import urllib.parse

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import memory_folder  # noqa: F401

PROGRAM, MAKER = map(os.path.abspath, sys.argv[1:3])


class Server:
    def __init__(self, database, *flags):
        self.process = subprocess.Popen([PROGRAM, "dashboard", "--db", database, "--quiet", *flags], stdout=subprocess.PIPE, text=True)
        self.url = self.process.stdout.readline().strip()
        parts = urllib.parse.urlsplit(self.url)
        self.port = parts.port
        self.token = dict(urllib.parse.parse_qsl(parts.query)).get("token")

    def ask(self, path, method="GET", body=None, **headers):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        connection.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
        answer = connection.getresponse()
        answer.text = answer.read().decode()
        connection.close()
        return answer

    def json(self, path):
        answer = self.ask(path)
        assert answer.status == 200, (path, answer.status, answer.text)
        return json.loads(answer.text)

    def close(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


class ServerTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.database = os.path.join(cls.folder.name, "history.db")
        subprocess.run([MAKER, cls.database], check=True)
        cls.server = Server(cls.database, "--port", "0")

    @classmethod
    def tearDownClass(cls):
        cls.server.close()
        cls.folder.cleanup()

    def test_page_and_assets_are_ours_alone(self):
        page = self.server.ask("/")
        self.assertEqual(page.status, 200)
        policy = page.getheader("Content-Security-Policy")
        self.assertIn("default-src 'none'", policy)
        self.assertNotIn("unsafe", policy)
        self.assertEqual(page.getheader("X-Content-Type-Options"), "nosniff")
        self.assertIn('src="/assets/main.js"', page.text)
        self.assertEqual(self.server.ask("/assets/main.js").getheader("Content-Type"), "text/javascript; charset=utf-8")
        self.assertEqual(self.server.ask("/assets/d3.js").status, 200)
        for path in ("/assets/none.js", "/assets/../server.cpp", "/assets/%2e%2e/server.cpp", "/none", "/api/none"):
            self.assertEqual(self.server.ask(path).status, 404, path)

    def test_answers_to_local_names_only(self):
        for host in ("evil.example", f"evil.example:{self.server.port}", "10.0.0.1"):
            self.assertEqual(self.server.ask("/api/runs", Host=host).status, 403, host)
        self.assertEqual(self.server.ask("/api/runs", Host=f"localhost:{self.server.port}").status, 200)

    def test_artifacts_are_downloads(self):
        run = next(r for r in self.server.json("/api/runs")["runs"] if r["name"].startswith("<script>"))
        files = self.server.json(f"/api/run/{run['id']}")["artifacts"]
        path = files[0]["path"]
        answer = self.server.ask(f"/artifact/{run['id']}/{urllib.parse.quote(path)}")
        self.assertEqual(answer.status, 200)
        self.assertEqual(answer.getheader("Content-Type"), "application/octet-stream")
        self.assertTrue(answer.getheader("Content-Disposition").startswith("attachment"))
        self.assertIn("</script>", answer.text)
        self.assertEqual(self.server.ask(f"/artifact/{run['id']}/none").status, 404)
        self.assertEqual(self.server.ask("/artifact/none/x").status, 404)

    def test_actions_need_the_token_of_the_page(self):
        run = self.server.json("/api/runs")["runs"][3]["id"]
        note = f"/api/run/{run}/note"
        body = json.dumps({"text": "kept"})
        token = self.server.ask("/").text.split('name="fk-token" content="')[1].split('"')[0]
        for headers in ({}, {"X_Fastkernels_Token": "0" * 32}, {"X_Fastkernels_Token": token, "Origin": "http://evil.example"},
                        {"X_Fastkernels_Token": token, "Host": "evil.example"}):
            self.assertEqual(self.server.ask(note, "POST", body, **headers).status, 403, headers)
            self.assertEqual(self.server.ask(f"/api/run/{run}/delete", "POST", "{}", **headers).status, 403)
        self.assertNotIn("note", self.server.json(f"/api/run/{run}")["run"]["tags"])
        self.assertEqual(self.server.ask(note, "POST", body, X_Fastkernels_Token=token).status, 200)
        self.assertEqual(self.server.json(f"/api/run/{run}")["run"]["tags"]["note"], "kept")
        self.assertEqual(self.server.ask(note, "POST", "{}", X_Fastkernels_Token=token).status, 400)
        self.assertEqual(self.server.ask(note, "POST", "{", X_Fastkernels_Token=token).status, 400)
        self.assertEqual(self.server.ask(f"/api/run/{run}/delete", "GET").status, 404)
        self.assertEqual(self.server.ask(f"/api/run/{run}/delete", "POST", "{}", X_Fastkernels_Token=token).status, 200)
        self.assertEqual(self.server.ask(f"/api/run/{run}").status, 404)

    def test_a_taken_port_is_left_alone(self):
        other = Server(self.database, "--port", str(self.server.port))
        try:
            self.assertNotEqual(other.port, self.server.port)
            self.assertEqual(other.ask("/").status, 200)
        finally:
            other.close()

    def test_other_hosts_need_a_token(self):
        server = Server(self.database, "--port", "0", "--host", "0.0.0.0", "--token", "long enough")
        try:
            self.assertEqual(server.token, "long enough")
            self.assertEqual(server.ask("/api/runs").status, 403)
            self.assertEqual(server.ask("/?token=wrong").status, 403)
            first = server.ask("/?token=long%20enough")
            self.assertEqual((first.status, first.getheader("Location")), (302, "/"))
            cookie = first.getheader("Set-Cookie")
            self.assertIn("HttpOnly", cookie)
            self.assertIn("SameSite=Strict", cookie)
            self.assertEqual(server.ask("/api/runs", Cookie=cookie.split(";")[0]).status, 200)
        finally:
            server.close()

    def test_a_missing_history_is_an_empty_one(self):
        server = Server(os.path.join(self.folder.name, "new", "history.db"), "--port", "0")
        try:
            self.assertEqual(server.json("/api/overview")["runs_total"], 0)
        finally:
            server.close()

    def run_program(self, *words):
        return subprocess.run([PROGRAM, *words], capture_output=True, text=True, cwd=self.folder.name)

    def test_files(self):
        done = self.run_program("dashboard", "--db", self.database, "--out", "all.html", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(json.loads(done.stdout)["size_bytes"], os.path.getsize(os.path.join(self.folder.name, "all.html")))
        done = self.run_program("report", "--db", self.database, "--run", "last", "--out", "one.html")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("one.html", done.stdout)

    def test_mistakes_are_sentences(self):
        for words in (["dashboard", "--db", "none.db", "--out", "x.html"], ["report", "--db", self.database, "--run", "none"],
                      ["dashboard", "--db", self.database, "--out", "no/such/folder/x.html"],
                      ["dashboard", "--db", self.database, "--port", "0", "--host", "not.a.host.invalid"]):
            done = self.run_program(*words)
            self.assertEqual(done.returncode, 1, (words, done.stderr))
            self.assertRegex(done.stderr, r"^fastkernels: \S.*\S\n$")
        for words in (["dashboard", "--port", "65536"], ["dashboard", "--token", "short"], ["report", "extra"]):
            self.assertEqual(self.run_program(*words).returncode, 2, words)

    def test_charts_without_a_browser(self):
        done = subprocess.run([PROGRAM, "report", "--db", self.database, "--out", "one.html", "--png"], capture_output=True, text=True,
                              cwd=self.folder.name, env={"PATH": "/nonexistent"})
        self.assertEqual(done.returncode, 1)
        self.assertIn("Chromium", done.stderr)
        self.assertIn("one.html", done.stdout, "the page itself is there")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
