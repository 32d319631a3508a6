"""A receiver of Waypost's messages. It checks who sends, stores each message once, and
answers; work goes on from the stored ones. Nothing but Python 3.8:

RECEIVER_USERNAME=waypost RECEIVER_PASSWORD=s3cret RECEIVER_SECRETS='whsec_… whsec_…' python3 receiver.py 127.0.0.1:8091 inbox
"""
import base64, hashlib, hmac, json, os, re, sys, tempfile, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

USERNAME, PASSWORD = os.environ.get("RECEIVER_USERNAME", ""), os.environ.get("RECEIVER_PASSWORD", "")
SECRETS = os.environ.get("RECEIVER_SECRETS", "").split()  # several while one replaces another


def authorized(headers):
    """Checks Basic auth, in the same time whatever is sent; without a user name, nothing."""
    want = "Basic " + base64.b64encode(f"{USERNAME}:{PASSWORD}".encode()).decode()
    return not USERNAME or hmac.compare_digest(headers.get("Authorization", "").encode(), want.encode())


def signed(headers, body, now):
    """Checks the headers of Standard Webhooks: one of the signatures is by one of our secrets,
    over this very body, and not older or newer than five minutes. Without secrets, nothing."""
    if not SECRETS:
        return True
    message_id, timestamp = headers.get("Webhook-Id", ""), headers.get("Webhook-Timestamp", "")
    if not re.fullmatch("[0-9]{1,12}", timestamp) or abs(now - int(timestamp)) > 300:
        return False
    found = False
    for secret in SECRETS:
        key = base64.b64decode(secret[len("whsec_"):])
        mac = hmac.new(key, f"{message_id}.{timestamp}.".encode() + body, hashlib.sha256)
        want = b"v1," + base64.b64encode(mac.digest())
        for got in headers.get("Webhook-Signature", "").split():
            found = hmac.compare_digest(got.encode(), want) or found
    return found


def store(inbox, message_id, body):
    """Keeps a message under its id, whole or not at all. False: it was there, or came at the same
    time and was first."""
    with tempfile.NamedTemporaryFile(dir=inbox, prefix=".new-") as f:
        f.write(body)
        f.flush()
        os.fsync(f.fileno())
        try:
            os.link(f.name, os.path.join(inbox, message_id + ".json"))
        except FileExistsError:
            return False
    return True


class Receiver(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # connections are kept
    timeout = 60  # longer than Waypost keeps them, so that it is not the receiver who closes first
    inbox = "."

    def do_POST(self):
        length = self.headers.get("Content-Length", "")
        if not re.fullmatch("[0-9]{1,7}", length) or int(length) > 1 << 20:
            self.close_connection = True  # the body is not read
            return self.answer(400, "the message is too long")
        body = self.rfile.read(int(length))
        if not authorized(self.headers) or not signed(self.headers, body, time.time()):
            return self.answer(401, "unknown sender")
        try:
            message = json.loads(body)
            message_id, version = message["messageId"], message["version"]
            if not re.fullmatch("msg_[0-9a-z]{26}", message_id):
                raise ValueError("no id of a message")
        except (ValueError, KeyError, TypeError):
            return self.answer(400, "no message")
        if version != "1.0":  # for good: it is not sent again
            return self.answer(200, {"succeed": False, "message": f"version {version} is not known here"})
        try:
            added = store(self.inbox, message_id, body)
        except OSError as e:
            self.log_error("%s", e)
            return self.answer(503, "try again later")  # it is sent again
        # The second time is a success like the first.
        return self.answer(200, {"succeed": True, "message": "stored" if added else "stored before"})

    def answer(self, status, content):
        body = json.dumps(content, ensure_ascii=False).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


if __name__ == "__main__":
    host, _, port = sys.argv[1].rpartition(":")
    Receiver.inbox = sys.argv[2]
    server = ThreadingHTTPServer((host, int(port)), Receiver)
    print(f"http://{host}:{server.server_address[1]}", flush=True)
    server.serve_forever()
