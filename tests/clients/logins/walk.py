"""A person at the sign-in page, without script: walk.py URL WORKSPACE KEY [--arrive].

Opens an authorization URL, fills the form of the page in, allows, and prints the address that the browser is sent to;
with --arrive it goes there too, as a browser would.
"""

import html.parser
import http.client
import sys
import urllib.parse
import urllib.request

SECONDS_MAX = 30


class Form(html.parser.HTMLParser):
    """The one form of a page: its hidden fields and its method."""

    def __init__(self):
        super().__init__()
        self.hidden, self.method = {}, None

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        if tag == "form":
            self.method = found.get("method", "get").lower()
        if tag == "input" and found.get("type") == "hidden":
            self.hidden[found["name"]] = found.get("value", "")


def asked(method, url, body=None, **headers):
    """Status, headers and text of one request; no redirect is followed."""
    to = urllib.parse.urlsplit(url)
    connection = http.client.HTTPConnection(to.hostname, to.port, timeout=SECONDS_MAX)
    try:
        target = to.path + ("?" + to.query if to.query else "")
        connection.request(method, target, body, headers)
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read().decode()
    finally:
        connection.close()


def walk(url, workspace, key, decision="allow"):
    """The address that the answer goes to."""
    status, headers, page = asked("GET", url)
    if status != 200:
        raise ValueError(f"the sign-in page answered {status}: {page}")
    form = Form()
    form.feed(page)
    if form.method != "post":
        raise ValueError(f"the page has no form that is posted: {page}")
    cookie = headers["Set-Cookie"].split(";")[0]
    fields = form.hidden | {"workspace": workspace, "key": key, "decision": decision}
    to = urllib.parse.urlsplit(url)
    origin = f"{to.scheme}://{to.netloc}"
    status, headers, page = asked(
        "POST", f"{origin}/authorize", urllib.parse.urlencode(fields), Cookie=cookie, Origin=origin,
        **{"Content-Type": "application/x-www-form-urlencoded", "Sec-Fetch-Site": "same-origin"})
    if status != 303:
        raise ValueError(f"the form was answered {status}: {page}")
    return headers["Location"]


def main():
    url, workspace, key, *arrive = sys.argv[1:]
    location = walk(url, workspace, key)
    if arrive:
        with urllib.request.urlopen(location, timeout=SECONDS_MAX) as answer:
            answer.read()
    print(location)


if __name__ == "__main__":
    main()
