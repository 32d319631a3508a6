#!/usr/bin/env python3
"""Calls a Waypost gateway: waypost.py METHOD TARGET [BODY ['Name: value' ...]]; BODY may be @FILE.
It reads WAYPOST_URL, WAYPOST_ACCESS_KEY and WAYPOST_SECRET_KEY. As a module: Client(...).call(...)."""
import hashlib, hmac, http.client, json, os, re, secrets, sys, time, urllib.parse

SIGNED = {"host", "x-cloud-content-sha256", "x-cloud-nonce", "x-cloud-timestamp",  # always
          "content-type", "idempotency-key", "if-match", "x-cloud-actor", "x-cloud-stage"}  # where sent


def sign(access_key, secret_key, method, target, headers, body=b"", timestamp=None, nonce=None):
    """Returns the headers, which must hold Host, with those that sign the request."""
    headers = {**headers, "X-Cloud-Timestamp": str(timestamp or int(time.time())),
               "X-Cloud-Nonce": nonce or secrets.token_urlsafe(16),
               "X-Cloud-Content-SHA256": hashlib.sha256(body).hexdigest()}
    path, _, query = target.partition("?")
    query = "&".join(sorted(p if "=" in p else p + "=" for p in query.split("&") if p))
    values = {name.lower(): re.sub(r"[ \t\r\n\v\f]+", " ", value).strip(" ") for name, value in headers.items()}
    signed = sorted(SIGNED & values.keys())
    names = ";".join(signed)
    canonical = "\n".join([method, path, query, *(f"{name}:{values[name]}" for name in signed), "", names,
                           headers["X-Cloud-Content-SHA256"]])
    text = "\n".join(["CLOUD1-HMAC-SHA256", headers["X-Cloud-Timestamp"], headers["X-Cloud-Nonce"],
                      hashlib.sha256(canonical.encode("latin-1")).hexdigest()])
    mac = hmac.new(secret_key.encode(), text.encode(), hashlib.sha256).hexdigest()
    headers["X-Cloud-Signature"] = f"CLOUD1-HMAC-SHA256 Credential={access_key}, SignedHeaders={names}, Signature={mac}"
    return headers


class Client:
    def __init__(self, url, access_key, secret_key, timeout=60):
        self.url, self.keys, self.timeout = urllib.parse.urlsplit(url), (access_key, secret_key), timeout

    def call(self, method, target, body=None, headers={}):
        """Makes one call and returns the answer's status, headers and body, JSON as what it holds and
        all else as bytes. A body of bytes is sent as it is, any other as JSON."""
        data = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        headers = {"Host": self.url.netloc, **headers}
        headers = {name: value.encode().decode("latin-1") for name, value in headers.items()}  # sent as UTF-8
        if data and "content-type" not in map(str.lower, headers):
            headers["Content-Type"] = "application/json"
        connect = http.client.HTTPSConnection if self.url.scheme == "https" else http.client.HTTPConnection
        connection = connect(self.url.netloc, timeout=self.timeout)
        try:
            connection.request(method, target, data or None, sign(*self.keys, method, target, headers, data))
            answer = connection.getresponse()
            data, media = answer.read(), answer.headers.get_content_type()
        finally:
            connection.close()
        return answer.status, answer.headers, json.loads(data) if data and media == "application/json" else data


if __name__ == "__main__":
    method, target, body, *lines = sys.argv[1:] + [""] * (4 - len(sys.argv))
    data = open(body[1:], "rb").read() if body.startswith("@") else body.encode()
    client = Client(*(os.environ["WAYPOST_" + name] for name in ("URL", "ACCESS_KEY", "SECRET_KEY")))
    status, _, answer = client.call(method, target, data, dict(re.split(r":\s*", line, maxsplit=1) for line in lines))
    sys.stdout.buffer.write(answer if isinstance(answer, bytes) else json.dumps(answer, ensure_ascii=False).encode() + b"\n")
    sys.exit(status >= 300)
