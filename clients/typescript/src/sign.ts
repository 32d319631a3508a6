import { createHash, createHmac, randomBytes } from 'node:crypto'

/** The access key and secret key of an application (`waypost apps create`). */
export interface Key {
  accessKey: string
  secretKey: string
}

const ALGORITHM = 'CLOUD1-HMAC-SHA256'

/** Headers that are signed where they are sent, beside those that always are. */
const WHERE_SENT = ['content-type', 'idempotency-key', 'if-match', 'x-cloud-actor', 'x-cloud-stage']

const sha256 = (data: string | Uint8Array): string => createHash('sha256').update(data).digest('hex')

/** query is the canonical form of what stands behind `?`. */
const query = (raw: string): string =>
  raw.split('&').filter((piece) => piece !== '').map((piece) => (piece.includes('=') ? piece : `${piece}=`)).sort().join('&')

const trimmed = (value: string): string => value.replace(/[ \t\r\n\v\f]+/g, ' ').replace(/^ | $/g, '')

/** What a request is signed at: the time in unix seconds, and a nonce of 16 to 64 characters that is used once. */
export interface Moment {
  timestamp: number
  nonce: string
}

/**
 * sign returns the headers that sign a request. target is the path and the query as they are sent, headers holds
 * `host` and what is sent of the headers that can be signed.
 */
export function sign(key: Key, method: string, target: string, headers: Headers, body: Uint8Array, at?: Moment): Headers {
  const timestamp = String(at?.timestamp ?? Math.floor(Date.now() / 1000))
  const nonce = at?.nonce ?? randomBytes(16).toString('base64url')
  const hash = sha256(body)
  const signed: Record<string, string> = {
    host: headers.get('host') ?? '', 'x-cloud-content-sha256': hash, 'x-cloud-nonce': nonce, 'x-cloud-timestamp': timestamp,
  }
  for (const name of WHERE_SENT) {
    const value = headers.get(name)
    if (value !== null) signed[name] = value
  }
  const names = Object.keys(signed).sort()
  const cut = target.indexOf('?')
  const [path, rest] = cut < 0 ? [target, ''] : [target.slice(0, cut), target.slice(cut + 1)]
  const lines = names.map((name) => `${name}:${trimmed(signed[name] ?? '')}\n`).join('')
  const canonical = [method, path, query(rest), lines, names.join(';'), hash].join('\n')
  // A header's value holds a byte in each character.
  const text = [ALGORITHM, timestamp, nonce, sha256(Buffer.from(canonical, 'latin1'))].join('\n')
  const mac = createHmac('sha256', key.secretKey).update(text).digest('hex')
  return new Headers({
    'X-Cloud-Timestamp': timestamp, 'X-Cloud-Nonce': nonce, 'X-Cloud-Content-SHA256': hash,
    'X-Cloud-Signature': `${ALGORITHM} Credential=${key.accessKey}, SignedHeaders=${names.join(';')}, Signature=${mac}`,
  })
}
