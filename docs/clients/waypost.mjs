// Calls a Waypost gateway: waypost.mjs METHOD TARGET [BODY ['Name: value' ...]]; BODY may be @FILE.
// It reads WAYPOST_URL, WAYPOST_ACCESS_KEY and WAYPOST_SECRET_KEY. As a module: new Client(...).call(...).
import { createHash, createHmac, randomBytes } from 'node:crypto'
import { readFileSync, realpathSync } from 'node:fs'
import http from 'node:http'
import https from 'node:https'
import { buffer } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'

const SIGNED = ['host', 'x-cloud-content-sha256', 'x-cloud-nonce', 'x-cloud-timestamp', // always
  'content-type', 'idempotency-key', 'if-match', 'x-cloud-actor', 'x-cloud-stage'] // where sent
const sha256 = (data) => createHash('sha256').update(data, 'latin1').digest('hex')

// sign returns the headers, which must hold Host, with those that sign the request; body is a Buffer.
export function sign(accessKey, secretKey, method, target, headers, body, timestamp, nonce) {
  headers = { ...headers, 'X-Cloud-Timestamp': String(timestamp ?? Math.floor(Date.now() / 1000)),
    'X-Cloud-Nonce': nonce ?? randomBytes(16).toString('base64url'), 'X-Cloud-Content-SHA256': sha256(body) }
  const [path, ...query] = target.split('?')
  const pieces = query.join('?').split('&').filter(Boolean).map((p) => (p.includes('=') ? p : p + '=')).sort()
  const lines = Object.entries(headers).filter(([name]) => SIGNED.includes(name.toLowerCase())).map(([name, value]) =>
    [name.toLowerCase(), value.replace(/[ \t\r\n\v\f]+/g, ' ').replace(/^ | $/g, '')].join(':')).sort()
  const names = lines.map((line) => line.split(':')[0]).join(';')
  const canonical = [method, path, pieces.join('&'), ...lines, '', names, headers['X-Cloud-Content-SHA256']].join('\n')
  const text = ['CLOUD1-HMAC-SHA256', headers['X-Cloud-Timestamp'], headers['X-Cloud-Nonce'], sha256(canonical)].join('\n')
  const mac = createHmac('sha256', secretKey).update(text).digest('hex')
  headers['X-Cloud-Signature'] = `CLOUD1-HMAC-SHA256 Credential=${accessKey}, SignedHeaders=${names}, Signature=${mac}`
  return headers
}

export class Client {
  constructor(url, accessKey, secretKey, timeout = 60_000) {
    Object.assign(this, { url: new URL(url), keys: [accessKey, secretKey], timeout })
  }

  // call makes one call and resolves to the answer's status, headers and body, JSON as what it holds and
  // all else as a Buffer. A body that is a Buffer is sent as it is, any other as JSON.
  async call(method, target, body, headers = {}) {
    const data = Buffer.isBuffer(body) ? body : Buffer.from(body === undefined ? '' : JSON.stringify(body))
    headers = Object.fromEntries(Object.entries({ Host: this.url.host, ...headers }).map(([n, v]) => [n, Buffer.from(v).toString('latin1')])) // UTF-8
    if (data.length && !Object.keys(headers).some((n) => n.toLowerCase() === 'content-type')) headers['Content-Type'] = 'application/json'
    const { protocol, hostname, port } = this.url
    const answer = await new Promise((resolve, reject) => (protocol === 'https:' ? https : http).request({
      hostname: hostname.replace(/^\[|\]$/g, ''), port, method, path: target, signal: AbortSignal.timeout(this.timeout),
      headers: sign(...this.keys, method, target, headers, data) }, resolve).on('error', reject).end(data))
    const read = await buffer(answer)
    const json = read.length && /^application\/json\b/.test(answer.headers['content-type'])
    return { status: answer.statusCode, headers: answer.headers, body: json ? JSON.parse(read) : read }
  }
}

if (process.argv[1] && realpathSync(process.argv[1]) === fileURLToPath(import.meta.url)) {
  const [method, target, body = '', ...lines] = process.argv.slice(2)
  const { WAYPOST_URL, WAYPOST_ACCESS_KEY, WAYPOST_SECRET_KEY } = process.env
  const headers = Object.fromEntries(lines.map((line) => [line.split(':')[0], line.replace(/^[^:]*:\s*/, '')]))
  const data = body.startsWith('@') ? readFileSync(body.slice(1)) : Buffer.from(body)
  const answer = await new Client(WAYPOST_URL, WAYPOST_ACCESS_KEY, WAYPOST_SECRET_KEY).call(method, target, data, headers)
  process.stdout.write(Buffer.isBuffer(answer.body) ? answer.body : JSON.stringify(answer.body) + '\n')
  process.exitCode = answer.status < 300 ? 0 : 1
}
