"""A small client of the S3 protocol on the standard library alone: one connection, one answer for each request.

It signs requests itself (AWS Signature Version 4, path style) and never repeats one: what it gives is what the
server said. Settings are those of any such client: AWS_ENDPOINT_URL, AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY,
AWS_REGION. Run as a program it makes a bucket that may be there already: s3.py BUCKET.
"""

import datetime
import hashlib
import hmac
import http.client
import os
import socket
import sys
import urllib.parse
import xml.etree.ElementTree as ElementTree

# An answer that takes longer is none.
ANSWER_SECONDS_MAX = 60


class Settings:
    """Where the store is and who asks."""

    def __init__(self, endpoint, key, secret, region):
        parts = urllib.parse.urlsplit(endpoint)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.path not in ("", "/"):
            sys.exit(f"AWS_ENDPOINT_URL is {endpoint!r}: it must be http://HOST:PORT or https://HOST:PORT")
        self.secure = parts.scheme == "https"
        self.host, self.port = parts.hostname, parts.port
        self.named = parts.netloc.rpartition("@")[2]
        self.key, self.secret, self.region = key, secret, region

    @classmethod
    def of_environment(cls):
        wanted = ("AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
        missing = [name for name in wanted if not os.environ.get(name)]
        if missing:
            sys.exit(f"not set: {', '.join(missing)}")
        return cls(*(os.environ[name] for name in wanted), os.environ.get("AWS_REGION", "us-east-1"))


class Answer:
    """What came back. Status 0: nothing did, and `code` says why."""

    def __init__(self, status, code, headers, body):
        self.status, self.code, self.headers, self.body = status, code, headers, body

    @property
    def good(self):
        return 200 <= self.status < 300

    def __str__(self):
        return f"{self.status} {self.code}".strip()


class Client:
    """One connection that is kept; not for two threads at once."""

    def __init__(self, settings):
        self.settings = settings
        kind = http.client.HTTPSConnection if settings.secure else http.client.HTTPConnection
        self.connection = kind(settings.host, settings.port, timeout=ANSWER_SECONDS_MAX)

    def ask(self, method, bucket, key="", query=None, headers=None, body=b""):
        path = "/" + bucket + ("/" + urllib.parse.quote(key, safe="/~") if key else "")
        pairs = sorted((quoted(name), quoted(value)) for name, value in (query or {}).items())
        line = "&".join(f"{name}={value}" for name, value in pairs)
        signed = sign(self.settings, method, path, line, body)
        try:
            self.connection.request(method, path + ("?" + line if line else ""), body, {**signed, **(headers or {})})
            # A gateway may wait for that before it sends the rest: 40 ms otherwise.
            self.connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
            answer = self.connection.getresponse()
            said = answer.read()
        except (OSError, http.client.HTTPException) as error:
            self.connection.close()
            return Answer(0, type(error).__name__, {}, b"")
        code = "" if answer.status < 300 else code_of(said)
        return Answer(answer.status, code, {name.lower(): value for name, value in answer.getheaders()}, said)

    def put(self, bucket, key, body, headers=None):
        return self.ask("PUT", bucket, key, headers=headers, body=body)

    def create(self, bucket, key, body):
        """Puts an object that must not be there yet."""
        return self.put(bucket, key, body, {"If-None-Match": "*"})

    def get(self, bucket, key, span=None):
        return self.ask("GET", bucket, key, headers={"Range": f"bytes={span}"} if span else None)

    def head(self, bucket, key):
        return self.ask("HEAD", bucket, key)

    def remove(self, bucket, key):
        return self.ask("DELETE", bucket, key)

    def names(self, bucket, prefix, after="", at_once=1000):
        """Keys under a prefix, page by page; the answer instead, where one is not good."""
        found, query = [], {"list-type": "2", "prefix": prefix, "max-keys": str(at_once)}
        if after:
            query["start-after"] = after
        while True:
            answer = self.ask("GET", bucket, query=query)
            if not answer.good:
                return answer
            page = ElementTree.fromstring(answer.body)
            found += [entry.text for entry in page.iterfind("{*}Contents/{*}Key")]
            following = page.findtext("{*}NextContinuationToken")
            if page.findtext("{*}IsTruncated") != "true" or not following:
                return found
            query["continuation-token"] = following

    def make_bucket(self, bucket):
        answer = self.ask("PUT", bucket)
        if not answer.good and answer.code not in ("BucketAlreadyOwnedByYou", "BucketAlreadyExists"):
            sys.exit(f"the bucket {bucket} cannot be made: {answer}")


def quoted(text):
    return urllib.parse.quote(text, safe="-_.~")


def code_of(body):
    try:
        return ElementTree.fromstring(body).findtext("{*}Code") or ""
    except ElementTree.ParseError:
        return ""


def sign(settings, method, path, query, body):
    """The headers that a signed request needs."""
    now = datetime.datetime.now(datetime.timezone.utc)
    moment, day = now.strftime("%Y%m%dT%H%M%SZ"), now.strftime("%Y%m%d")
    digest = hashlib.sha256(body).hexdigest()
    headers = {"host": settings.named, "x-amz-content-sha256": digest, "x-amz-date": moment}
    names = ";".join(sorted(headers))
    lines = "".join(f"{name}:{headers[name]}\n" for name in sorted(headers))
    request = "\n".join((method, path, query, lines, names, digest))
    scope = f"{day}/{settings.region}/s3/aws4_request"
    text = "\n".join(("AWS4-HMAC-SHA256", moment, scope, hashlib.sha256(request.encode()).hexdigest()))
    key = b"AWS4" + settings.secret.encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    signature = hmac.digest(key, text.encode(), "sha256").hex()
    headers["authorization"] = (
        f"AWS4-HMAC-SHA256 Credential={settings.key}/{scope}, SignedHeaders={names}, Signature={signature}")
    return headers


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("s3.py BUCKET")
    Client(Settings.of_environment()).make_bucket(sys.argv[1])
