// A receiver of Waypost's messages. It checks who sends, stores each message once, and
// answers; work goes on from the stored ones. Nothing but Node 18:
//
// RECEIVER_USERNAME=waypost RECEIVER_PASSWORD=s3cret RECEIVER_SECRETS='whsec_… whsec_…' node receiver.mjs 127.0.0.1:8091 inbox
import { createHmac, randomUUID, timingSafeEqual } from 'node:crypto'
import { link, open, unlink } from 'node:fs/promises'
import { createServer } from 'node:http'
import { join } from 'node:path'

const { RECEIVER_USERNAME: username = '', RECEIVER_PASSWORD: password = '' } = process.env
const secrets = (process.env.RECEIVER_SECRETS ?? '').split(' ').filter(Boolean) // several while one replaces another

// Both are hashed, so that comparing takes the same time whatever is sent.
const hash = text => createHmac('sha256', 'compare').update(text).digest()
const equal = (a, b) => timingSafeEqual(hash(a), hash(b))

// Checks Basic auth; without a user name, nothing.
function authorized(headers) {
  return !username || equal(headers.authorization ?? '', 'Basic ' + Buffer.from(`${username}:${password}`).toString('base64'))
}

// Checks the headers of Standard Webhooks: one of the signatures is by one of our secrets,
// over this very body, and not older or newer than five minutes. Without secrets, nothing.
function signed(headers, body, now) {
  if (secrets.length === 0) return true
  const id = headers['webhook-id'] ?? '', timestamp = headers['webhook-timestamp'] ?? ''
  if (!/^\d{1,12}$/.test(timestamp) || Math.abs(now - Number(timestamp)) > 300) return false
  const got = (headers['webhook-signature'] ?? '').split(' ')
  return secrets.some(secret => {
    const mac = createHmac('sha256', Buffer.from(secret.slice('whsec_'.length), 'base64')).update(`${id}.${timestamp}.`).update(body)
    const want = 'v1,' + mac.digest('base64')
    return got.some(signature => equal(signature, want))
  })
}

// Keeps a message under its id, whole or not at all. False: it was there, or came at the same
// time and was first.
async function store(inbox, id, body) {
  const unfinished = join(inbox, '.new-' + randomUUID())
  const file = await open(unfinished, 'wx')
  try {
    await file.writeFile(body).then(() => file.sync()).finally(() => file.close())
    return await link(unfinished, join(inbox, id + '.json')).then(() => true, e => { if (e.code !== 'EEXIST') throw e })
  } finally {
    await unlink(unfinished)
  }
}

// Returns the status and what to answer.
async function receive(request, inbox) {
  const parts = []
  let size = 0
  for await (const part of request) {
    if ((size += part.length) <= 1 << 20) parts.push(part)
  }
  if (size > 1 << 20) return [400, 'the message is too long']
  const body = Buffer.concat(parts)
  if (request.method !== 'POST') return [405, 'send messages with POST']
  if (!authorized(request.headers) || !signed(request.headers, body, Date.now() / 1000)) return [401, 'unknown sender']
  let message
  try {
    message = JSON.parse(body)
  } catch {
    return [400, 'no message']
  }
  if (!/^msg_[0-9a-z]{26}$/.test(message?.messageId)) return [400, 'no message']
  // For good: it is not sent again.
  if (message.version !== '1.0') return [200, { succeed: false, message: `version ${message.version} is not known here` }]
  // The second time is a success like the first.
  return [200, { succeed: true, message: (await store(inbox, message.messageId, body)) ? 'stored' : 'stored before' }]
}

const [, , address, inbox] = process.argv
const colon = address.lastIndexOf(':')
const server = createServer(async (request, response) => {
  const [status, content] = await receive(request, inbox).catch(e => {
    console.error(e)
    return [503, 'try again later'] // it is sent again
  })
  response.writeHead(status, { 'Content-Type': 'application/json' }).end(JSON.stringify(content))
})
server.keepAliveTimeout = 60_000 // longer than Waypost keeps connections, so that it is not the receiver who closes first
server.listen(Number(address.slice(colon + 1)), address.slice(0, colon), () => {
  console.log(`http://${address.slice(0, colon)}:${server.address().port}`)
})
