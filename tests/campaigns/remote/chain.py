"""A chain as a stranger reads it: from a folder, over S3 or out of etcd; and who watches it while others write."""

import base64
import hashlib
import http.client
import json
import random
import threading
from pathlib import Path

import s3
from history import now

# What is looked at: the workspace of the campaign, and the store of tenants and their keys.
CHAINS = ("local", "control-")
# Numbers that are listed of etcd at once.
LISTED_MAX = 10_000
# Values that are read of etcd at once.
READ_MAX = 100
# Records that are read once more when all is over.
AGAIN_AT_END = 200


class Away(Exception):
    """What keeps the chain did not answer."""


class Folder:
    def __init__(self, root):
        self.root = Path(root)

    def names(self, prefix, after=""):
        try:
            found = sorted(path.name for path in (self.root / prefix).iterdir())
        except FileNotFoundError:
            return []
        return [name for name in found if name > after]

    def get(self, key):
        try:
            return (self.root / key).read_bytes()
        except FileNotFoundError:
            return None

    def everything(self):
        """Name and content of all that is there."""
        files = (path for path in self.root.rglob("*") if path.is_file())
        return ((str(path.relative_to(self.root)), path.read_bytes()) for path in files)


class Bucket:
    """Objects of an S3 store, below a prefix; where AWS_* say."""

    def __init__(self, bucket, prefix):
        self.bucket, self.prefix = bucket, prefix + "/"
        self.client = s3.Client(s3.Settings.of_environment())

    def names(self, prefix, after=""):
        whole = self.prefix + prefix
        found = self.client.names(self.bucket, whole, after=whole + after if after else "")
        if not isinstance(found, list):
            raise Away(str(found))
        return [key.removeprefix(whole) for key in found]

    def get(self, key):
        answer = self.client.get(self.bucket, self.prefix + key)
        if answer.status == 404:
            return None
        if not answer.good:
            raise Away(str(answer))
        return answer.body

    def everything(self):
        """Name and content of all that is there."""
        return ((key, self.get(key) or b"") for key in self.names(""))


class Etcd:
    """Keys of etcd by its JSON gateway; long records are objects of `objects`."""

    def __init__(self, members, prefix, objects):
        self.members, self.prefix, self.objects = members, prefix + "/", objects

    def ask(self, path, body):
        for _ in self.members:
            host, port = self.members[0]
            connection = http.client.HTTPConnection(host, port, timeout=5)
            try:
                connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
                answer = connection.getresponse()
                said = answer.read()
                if answer.status == 200:
                    return json.loads(said)
            except (OSError, http.client.HTTPException):
                pass
            finally:
                connection.close()
            # The next one may be well.
            self.members = self.members[1:] + self.members[:1]
        raise Away("no member of etcd answers")

    def range(self, first, behind=None, **more):
        body = {"key": coded(first), **({"range_end": coded(behind)} if behind else {}), **more}
        return self.ask("/v3/kv/range", body).get("kvs", [])

    def names(self, prefix, after=""):
        if not prefix.endswith("/chain/"):
            found = self.range(self.prefix + prefix.removesuffix("/"))
            return [plain(one["value"]).decode() for one in found]
        whole = self.prefix + prefix
        found = self.range(whole + after + "\0" if after else whole, whole + ":", keys_only=True, limit=LISTED_MAX)
        return sorted(plain(one["key"]).decode().removeprefix(whole) for one in found)

    def get(self, key):
        tenant, _, rest = key.removeprefix("t/").partition("/")
        if rest.startswith("edge/"):
            key = f"t/{tenant}/kept"
        found = self.range(self.prefix + key)
        if not found:
            return None
        value = plain(found[0]["value"])
        if not value.startswith(b"body "):
            return value
        number = key.rpartition("/")[2]
        return self.objects.get(f"t/{tenant}/body/{number}-{value.split()[1][:32].decode()}")

    def everything(self):
        """Name and content of all that is there, and of all objects."""
        yield from self.objects.everything()
        after = self.prefix
        while found := self.range(after, self.prefix[:-1] + chr(ord(self.prefix[-1]) + 1), limit=READ_MAX):
            for one in found:
                yield plain(one["key"]).decode(), plain(one["value"])
            after = plain(found[-1]["key"]).decode() + "\0"


def coded(text):
    return base64.b64encode(text.encode()).decode()


def plain(text):
    return base64.b64decode(text)


def record_of(number, content):
    """What a history has of a record."""
    line, _, rest = content.partition(b"\n")
    said = rest.partition(b"\n")[0].decode()
    digest = hashlib.sha256(line).hexdigest()
    head = json.loads(line)
    if said != f"sha256 {digest}" or head["number"] != number:
        raise ValueError(f"record {number} is not what its second line says")
    return {"number": number, "content": hashlib.sha256(content).hexdigest(), "hash": digest, "made": head["at"],
            **{name: head[name] for name in ("previous", "kind", "epoch", "node", "run", "seq")}}


class Observer:
    """Looks at a chain several times a second, and tells what it sees."""

    PAUSE = 0.25
    # Every so many looks all numbers are listed, and not those behind the newest alone.
    WHOLE_EVERY = 20

    def __init__(self, source, told, seed, chain):
        self.source, self.told, self.chain, self.tenant = source, told, chain, f"t/{chain}/"
        # The edge's boundary and its turn, of which the second is not always in the name.
        self.known, self.newest, self.place = {}, 0, (0, 0)
        # Up to where history went because something in it was erased.
        self.erased = 0
        self.dice = random.Random(seed)
        self.over = threading.Event()
        self.thread = threading.Thread(target=self._run, name=f"observer of {chain}")
        self.failed = None

    def start(self):
        self.thread.start()

    def end(self):
        """Looks once more at all numbers and at some of what they are, and ends."""
        self.over.set()
        self.thread.join()
        if self.failed:
            raise self.failed
        self._look(whole=True)
        for number in self.dice.sample(sorted(self.known), min(AGAIN_AT_END, len(self.known))):
            self._again(number)

    def _run(self):
        looks = 0
        while not self.over.wait(self.PAUSE):
            try:
                self._look(whole=looks % self.WHOLE_EVERY == 0)
                if self.known:
                    self._again(self.dice.choice(list(self.known)))
                looks += 1
            except Away:
                continue
            except Exception as error:  # Told by whoever ends it.
                self.failed = error
                return

    def _look(self, whole):
        for name in self.source.names(self.tenant + "edge/"):
            self._edge(name)
        after = "" if whole else f"{self.newest:020}"
        numbers = sorted(int(name) for name in self.source.names(self.tenant + "chain/", after))
        at = now()
        if whole and numbers:
            self.told.tell("newest", chain=self.chain, at=at, number=numbers[-1])
        for number in numbers:
            if number in self.known:
                continue
            content = self.source.get(f"{self.tenant}chain/{number:020}")
            if content is None:
                # Removed meanwhile, or not to be had from this member yet.
                return
            self.known[number] = record_of(number, content)
            self.told.tell("record", chain=self.chain, at=at, **self.known[number])
            self.newest = max(self.newest, number)

    def _edge(self, name):
        boundary, _, turn = name.partition("-")
        place = int(boundary), int(turn or 0)
        if place <= self.place:
            return
        content = self.source.get(f"{self.tenant}edge/{name}")
        if content is not None:
            self.place = place
            edge = json.loads(content)
            self.erased = max(self.erased, edge["erased"])
            self.told.tell("edge", chain=self.chain, at=now(), boundary=place[0], turn=place[1], erased=edge["erased"],
                           gone=edge["gone"], kept=[one["number"] for one in edge["kept"]])

    def _again(self, number):
        content = self.source.get(f"{self.tenant}chain/{number:020}")
        if content is not None:
            self.told.tell("again", chain=self.chain, at=now(), number=number,
                           content=hashlib.sha256(content).hexdigest())
