import createClient, { type Client, type ClientOptions } from 'openapi-fetch'
import type { components, paths } from './openapi.js'
import { type Key, sign } from './sign.js'

export { sign, type Key, type Moment } from './sign.js'
export type { components, operations, paths } from './openapi.js'

/** The objects that calls take and answer, by the names of `openapi.yaml`. */
export type Schemas = components['schemas']

/** What a call that fails answers; its shape is that of every fault of the gateway. */
export type Fault = Schemas['Error']

/** A client of a gateway, with a method for each of HTTP: `client.GET('/v1/leads/{id}', …)`. */
export type Waypost = Client<paths>

/** Options of a client beside the address. */
export interface Options extends Omit<ClientOptions, 'baseUrl' | 'fetch'> {
  /** The stage of all calls, `release` if absent. */
  stage?: 'release' | 'pre-release' | 'test'
  /** The person for whom the calls are made: up to 200 characters, which the audit log shows. */
  actor?: string
  /** What sends a signed request; `globalThis.fetch` if absent. */
  fetch?: (request: Request) => Promise<Response>
}

/**
 * waypost makes a client of the gateway at url that signs its calls. A call resolves to `{data}` or, if the gateway
 * answers a fault, `{error}`; it rejects if no answer comes. Nothing is sent again by itself: give an `Idempotency-Key`
 * where you do.
 */
export function waypost(url: string, key: Key, options: Options = {}): Waypost {
  const { stage, actor, fetch, headers, ...rest } = options
  const ofAll = {
    ...(stage === undefined ? {} : { 'X-Cloud-Stage': stage }),
    ...(actor === undefined ? {} : { 'X-Cloud-Actor': Buffer.from(actor, 'utf8').toString('latin1') }),
  }
  return createClient<paths>({ ...rest, baseUrl: url, headers: { ...ofAll, ...headers }, fetch: signedFetch(key, fetch) })
}

/** signedFetch is a fetch that signs what it sends, for use with other libraries. */
export function signedFetch(key: Key, fetch: (request: Request) => Promise<Response> = (r) => globalThis.fetch(r)) {
  return async (request: Request): Promise<Response> => {
    const url = new URL(request.url)
    const body = new Uint8Array(await request.arrayBuffer())
    const headers = new Headers(request.headers)
    headers.set('host', url.host)
    const proof = sign(key, request.method, url.pathname + url.search, headers, body)
    headers.delete('host') // fetch sends it by itself
    proof.forEach((value, name) => headers.set(name, value))
    return fetch(new Request(url, {
      method: request.method, headers, signal: request.signal, redirect: 'error', ...(body.length > 0 ? { body } : {}),
    }))
  }
}
