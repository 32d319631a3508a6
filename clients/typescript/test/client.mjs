// Tests the built client: against the vectors of signatures, and at a gateway (WAYPOST_URL, WAYPOST_ACCESS_KEY, WAYPOST_SECRET_KEY)
// of whose operations the file WAYPOST_OPERATIONS tells method, path, example of a body and documented statuses.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { sign, waypost } from '../dist/index.js'

const { WAYPOST_URL, WAYPOST_ACCESS_KEY, WAYPOST_SECRET_KEY, WAYPOST_OPERATIONS } = process.env
const key = { accessKey: WAYPOST_ACCESS_KEY, secretKey: WAYPOST_SECRET_KEY }
const client = waypost(WAYPOST_URL, key, { stage: 'test', actor: '张 Ada' })

test('vectors', () => {
  const v = JSON.parse(readFileSync(new URL('../../../signature/testdata/signature.json', import.meta.url)))
  for (const c of v.cases) {
    const headers = new Headers(Object.entries(c.headers).map(([name, value]) => [name, Buffer.from(value, 'utf8').toString('latin1')]))
    const signed = sign(v, c.method, c.target, headers, Buffer.from(c.body), v)
    assert.equal(signed.get('X-Cloud-Signature'), c.signedRequestHeaders['X-Cloud-Signature'], c.name)
  }
})

test('a lead', async () => {
  const made = await client.POST('/v1/leads', { body: { businessParam: { name: '张 Ada', externalId: 'typescript' } }, headers: { 'Idempotency-Key': 'typescript-1' } })
  assert.equal(made.response.status, 201)
  const { data, response } = await client.GET('/v1/leads/{id}', { params: { path: { id: made.data.leadsId } } })
  assert.equal(data.name, '张 Ada')
  const changed = await client.PATCH('/v1/leads/{id}', {
    params: { path: { id: data.leadsId }, header: { 'If-Match': response.headers.get('etag') } }, body: { businessParam: { remark: 'a b+c' } } })
  assert.equal(changed.response.status, 201)
  const found = await client.GET('/v1/leads', { params: { query: { name: '张 A', sort: '-createdAt', 'customFields.x y': undefined } } })
  assert.deepEqual(found.data.items.map((lead) => lead.leadsId), [data.leadsId])
  const twice = await client.POST('/v1/leads', { body: { businessParam: { name: 'x', externalId: 'typescript' } } })
  assert.equal(twice.data, undefined)
  assert.equal(twice.error.code, 'Conflict')
  assert.equal(twice.error.detail[0].target, 'externalId')
  const csv = await client.POST('/v1/leads/imports', { params: { query: { mode: 'upsert', dryRun: true } }, body: 'name\nGrace\n',
    bodySerializer: (text) => text, headers: { 'Content-Type': 'text/csv' } })
  assert.match(csv.data.id, /^imp_/)
  const audit = await client.GET('/v1/audit', { params: { query: { limit: 1 } } })
  assert.equal(audit.data.items[0].actor, '张 Ada')
})

test('every operation', async (t) => {
  for (const op of JSON.parse(readFileSync(WAYPOST_OPERATIONS))) {
    await t.test(`${op.method} ${op.path}`, async () => {
      const path = Object.fromEntries([...op.path.matchAll(/\{(\w+)\}/g)].map(([, name]) => [name, '1']))
      const { response, error } = await client.request(op.method.toLowerCase(), op.path, {
        params: { path }, parseAs: 'text', ...(op.body === undefined ? {} : { body: op.body }) })
      assert.ok(op.statuses.includes(String(response.status)), `${response.status} ${JSON.stringify(error)}`)
      assert.notEqual(response.status, 401, JSON.stringify(error))
    })
  }
})
