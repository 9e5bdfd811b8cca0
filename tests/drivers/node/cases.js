// node-postgres, in JavaScript alone, with its cursors and its streams for COPY.
//
// Always true: a case fails by an exception, and the others go on; each has a time limit of its own.
'use strict'

const assert = require('node:assert')
const crypto = require('node:crypto')
const fs = require('node:fs')
const timers = require('node:timers/promises')
const { Readable } = require('node:stream')
const { pipeline: pump } = require('node:stream/promises')

const { Client, Pool } = require('pg')
const copy = require('pg-copy-streams')
const Cursor = require('pg-cursor')

const given = process.env
const isDirect = given.DRIVERS_MODE === 'direct'
const secret = given.DRIVERS_SECRET
// A quarter of what the others take: here it comes as text, twice as long, and is made from that by the driver.
const BIG = 16 * 1024 * 1024

class Impossible extends Error {}

// What nobody else asks for, so that an answer tells whose it is.
const tag = (name, number = 0) => `${name}-${process.pid}-${number}`

const settings = (user, more) => ({
  host: '127.0.0.1', port: Number(given.DRIVERS_PORT), database: given.DRIVERS_DATABASE, user,
  connectionTimeoutMillis: 30000, ...more
})

async function dial(user = 'u', more = {}) {
  const client = new Client(settings(user, more))
  // Who is not waiting for an answer is told of an end by this; a test looks at answers.
  client.on('error', () => {})
  await client.connect()
  return client
}

// Runs `work` with a client of its own.
async function withClient(work, user = 'u', more = {}) {
  const client = await dial(user, more)
  try {
    return await work(client)
  } finally {
    await client.end()
  }
}

async function value(client, text, values) {
  const { rows } = await client.query({ text, values, rowMode: 'array' })
  return rows[0][0]
}

async function whose(client, mark) {
  const found = await value(client, 'select $1::text', [mark])
  assert.strictEqual(found, mark, `a foreign answer: ${found}, not ${mark}`)
}

async function fails(promise, code) {
  let error
  await promise.then(() => assert.fail(`no ${code} came`), (found) => { error = found })
  if (code) assert.strictEqual(error.code, code, `${error.code} came, not ${code}: ${error.message}`)
  return error
}

// Waits until somebody but the asker runs what has this mark in its text.
async function awaitRunning(watcher, mark) {
  const query = `select count(*)::int from pg_stat_activity
                 where state = 'active' and pid <> pg_backend_pid() and query like '%${mark}%'`
  for (const end = Date.now() + 20000; await value(watcher, query) === 0; await timers.setTimeout(10)) {
    assert.ok(Date.now() < end, `${mark} does not run`)
  }
}

const login = (user, more) =>
  withClient(async (client) => assert.strictEqual(await value(client, 'select current_user'), user), user, more)

function throughPooler() {
  if (isDirect) throw new Impossible('PostgreSQL has no console')
}

const cases = {
  connect_tcp: () => withClient((client) => whose(client, tag('connect_tcp'))),
  connect_unix: () => withClient((client) => whose(client, tag('connect_unix')), 'u', { host: given.DRIVERS_SOCKETS }),
  auth_md5: () => login('by_md5', { password: secret }),
  auth_scram: () => login('by_scram', { password: secret }),
  auth_scram_plus: () =>
    login('by_scram', { password: secret, ssl: { rejectUnauthorized: false }, enableChannelBinding: true }),

  async auth_wrong() {
    for (const user of ['by_md5', 'by_scram']) {
      const error = await fails(dial(user, { password: 'wrong' }), isDirect ? '28P01' : '08P01')
      assert.match(error.message, /authentication failed/)
    }
  },

  async tls_require() {
    await login('by_tls', { ssl: { rejectUnauthorized: false } })
    await fails(dial('by_tls'))
  },

  tls_verify_full: () => login('by_tls', { host: 'localhost', ssl: { ca: fs.readFileSync(given.DRIVERS_CA) } }),

  async tls_wrong_name() {
    await fails(dial('by_tls', { ssl: { ca: fs.readFileSync(given.DRIVERS_CA) } }), 'ERR_TLS_CERT_ALTNAME_INVALID')
  },

  async tls_certificate() {
    const [cert, key] = [given.DRIVERS_CERT, given.DRIVERS_KEY].map((path) => fs.readFileSync(path))
    await login('by_cert', { ssl: { rejectUnauthorized: false, cert, key } })
    await fails(dial('by_cert', { ssl: { rejectUnauthorized: false } }))
  },

  async prepared_shared() {
    const one = (number) => withClient(async (client) => {
      for (let turn = 0; turn < 15; turn++) {
        const mark = tag('shared', number * 1000 + turn)
        await client.query('begin')
        const shared = { name: 'shared', text: 'select $1::text as mark, $2::int as turn', values: [mark, turn] }
        assert.deepStrictEqual({ ...(await client.query(shared)).rows[0] }, { mark, turn })
        const own = { name: 'own', text: `select $1::text || '-own-${number}' as found`, values: [mark] }
        assert.strictEqual((await client.query(own)).rows[0].found, `${mark}-own-${number}`)
        await client.query('commit')
        assert.strictEqual((await client.query(own)).rows[0].found, `${mark}-own-${number}`)
      }
    })
    await Promise.all(Array.from({ length: 20 }, (_, number) => one(number)))
  },

  prepared_many: () => withClient(async (client) => {
    for (let turn = 0; turn < 3; turn++) {
      for (let number = 0; number < 60; number++) {
        const mark = tag('many', number)
        const query = { name: `many_${number}`, text: `select $1::text || '-${number}' as found`, values: [mark] }
        assert.strictEqual((await client.query(query)).rows[0].found, `${mark}-${number}`)
      }
    }
  }),

  prepared_deallocate() {
    throw new Impossible('node-postgres never closes a statement')
  },

  prepared_after_error: () => withClient(async (client) => {
    await fails(client.query({ name: 'a', text: 'select $1::int from not_there', values: [1] }), '42P01')
    const divide = (by) => client.query({ name: 'b', text: 'select 1 / $1::int as found', values: [by] })
    await fails(divide(0), '22012')
    assert.strictEqual((await divide(1)).rows[0].found, 1)
    await client.query('begin')
    await fails(divide(0), '22012')
    await client.query('rollback')
    assert.strictEqual((await divide(-1)).rows[0].found, -1)
  }),

  unnamed_over_syncs() {
    throw new Impossible('node-postgres sends Parse and Bind together')
  },

  // Many requests on their way at once, those with names among them.
  pipeline: () => withClient(async (client) => {
    for (let turn = 0; turn < 5; turn++) {
      const marks = Array.from({ length: 60 }, (_, number) => tag('pipeline', number))
      const found = await Promise.all(marks.map((mark, at) =>
        client.query({ name: at % 2 ? `piped_${at % 7}` : undefined, text: `select $1::text as found, ${at % 7}`, values: [mark] })))
      assert.deepStrictEqual(found.map((result) => result.rows[0].found), marks)
    }
  }, 'u', { pipeline: true }),

  pipeline_error: () => withClient(async (client) => {
    const all = Array.from({ length: 30 }, (_, number) =>
      number % 3 === 1
        ? client.query('select 1 / $1::int', [0])
        : client.query('select $1::text as found', [tag('pipeline_error', number)]))
    const results = await Promise.allSettled(all)
    results.forEach((result, number) => {
      if (number % 3 === 1) assert.strictEqual(result.reason.code, '22012')
      else assert.strictEqual(result.value.rows[0].found, tag('pipeline_error', number))
    })
  }, 'u', { pipeline: true }),

  // A portal that is read piece by piece, with Flush and not Sync between them: so also outside of a transaction.
  cursor: () => withClient(async (client) => {
    for (const begin of ['begin', 'select 1']) {
      await client.query(begin)
      const cursor = client.query(new Cursor('select n, $1::text as who from generate_series(1, 10000) n', [tag('cursor')]))
      let count = 0
      for (;;) {
        const rows = await cursor.read(700)
        for (const row of rows) assert.deepStrictEqual({ ...row }, { n: ++count, who: tag('cursor') })
        if (rows.length < 700) break
      }
      assert.strictEqual(count, 10000)
      await cursor.close()
      const left = client.query(new Cursor('select generate_series(1, 100000) n'))
      assert.strictEqual((await left.read(1))[0].n, 1)
      await left.close()
    }
    await client.query('rollback')
    await whose(client, tag('cursor'))
  }),

  copy_in: () => withClient(async (client) => {
    await client.query('create table if not exists incoming_node (n int, who text); truncate incoming_node')
    const rows = Array.from({ length: 20000 }, (_, n) => `${n}\t${tag('copy_in')}\n`)
    await pump(Readable.from(rows), client.query(copy.from('copy incoming_node from stdin')))
    const found = await value(client, 'select count(distinct n)::int from incoming_node where who = $1', [tag('copy_in')])
    assert.strictEqual(found, 20000)
    await client.query('drop table incoming_node')
  }),

  copy_out: () => withClient(async (client) => {
    const query = `copy (select n, '${tag('copy_out')}' from generate_series(1, 100000) n) to stdout`
    let text = ''
    for await (const piece of client.query(copy.to(query))) text += piece
    const lines = text.trimEnd().split('\n')
    assert.strictEqual(lines.length, 100000)
    lines.forEach((line, at) => assert.strictEqual(line, `${at + 1}\t${tag('copy_out')}`))
    await whose(client, tag('copy_out'))
  }),

  copy_failed: () => withClient(async (client) => {
    await client.query('create table if not exists copied_node (n int); truncate copied_node')
    const rows = Array.from({ length: 20000 }, () => '1\nnot a number\n')
    await fails(pump(Readable.from(rows), client.query(copy.from('copy copied_node from stdin'))), '22P02')
    assert.strictEqual(await value(client, 'select count(*)::int from copied_node'), 0)
    await client.query('drop table copied_node')
  }),

  copy_abandoned: () => withClient(async (client) => {
    await client.query('create table if not exists left_node (n int); truncate left_node')
    const stream = client.query(copy.from('copy left_node from stdin'))
    stream.on('error', () => {})
    stream.write('1\n'.repeat(10000))
    stream.destroy(new Error('enough'))
    assert.strictEqual(await value(client, 'select count(*)::int from left_node'), 0)
    await client.query('drop table left_node')
    // Nobody reads on: the connection has to go.
    const other = await dial()
    const out = other.query(copy.to('copy (select generate_series(1, 10000000)) to stdout'))
    out.on('error', () => {})
    await new Promise((resolve) => out.once('readable', resolve))
    other.connection.stream.destroy()
    await whose(client, tag('copy_abandoned'))
  }),

  cancel_timeout: () => withClient(async (client) => {
    await fails(client.query("begin; set local statement_timeout = '100ms'; select pg_sleep(50)"), '57014')
    await client.query('rollback')
    await whose(client, tag('cancel_timeout'))
    // The driver's own limit gives the answer up, and leaves the query alone.
    const error = await fails(client.query({ text: 'select pg_sleep(0.5)', query_timeout: 100 }))
    assert.match(error.message, /timeout/)
    await whose(client, tag('cancel_timeout'))
  }),

  cancel_by_hand: () => withClient((client) => withClient(async (watcher) => {
    for (let turn = 0; turn < 3; turn++) {
      const mark = tag('cancel_by_hand', turn)
      const asleep = fails(client.query(`select pg_sleep(50) /* ${mark} */`), '57014')
      await awaitRunning(watcher, mark)
      const { processID, secretKey } = client
      const canceller = new Client(settings('u'))
      canceller.connection.on('error', () => {})
      canceller.cancel({ activeQuery: turn, processID, secretKey }, turn)
      assert.match((await asleep).message, /user request/)
      await whose(client, mark)
    }
  })),

  error_fields: () => withClient(async (client) => {
    await client.query('create table if not exists unique_node (n int constraint only_once_node unique); truncate unique_node')
    await client.query('insert into unique_node values (1)')
    const { severity, schema, table, constraint, detail } = await fails(client.query('insert into unique_node values (1)'), '23505')
    assert.deepStrictEqual({ severity, schema, table, constraint, detail }, {
      severity: 'ERROR', schema: 'public', table: 'unique_node', constraint: 'only_once_node', detail: 'Key (n)=(1) already exists.'
    })
    assert.strictEqual((await fails(client.query('select 1 frum there'), '42601')).position, '15')
    const raised = "do $$ begin raise exception 'own' using errcode = 'XX123', hint = 'none'; end $$"
    const { message, hint } = await fails(client.query(raised), 'XX123')
    assert.deepStrictEqual({ message, hint }, { message: 'own', hint: 'none' })
    await client.query('drop table unique_node')
  }),

  error_in_transaction: () => withClient(async (client) => {
    await client.query('begin')
    await fails(client.query('select 1 / 0'), '22012')
    await fails(client.query('select 1'), '25P02')
    assert.strictEqual(client.getTransactionStatus(), 'E')
    await client.query('rollback')
    await whose(client, tag('error_in_transaction'))
  }),

  transaction: () => withClient(async (client) => {
    await client.query('create table if not exists kept_node (who text); truncate kept_node')
    await client.query('begin')
    await client.query('insert into kept_node values ($1)', [tag('lost')])
    await client.query('rollback')
    await client.query('begin isolation level serializable')
    await client.query('insert into kept_node values ($1)', [tag('kept')])
    assert.strictEqual(await value(client, 'show transaction_isolation'), 'serializable')
    await client.query('commit')
    assert.strictEqual(await value(client, "select string_agg(who, ',') from kept_node"), tag('kept'))
    await client.query('drop table kept_node')
  }),

  savepoint: () => withClient(async (client) => {
    await client.query('begin')
    const pid = await value(client, 'select pg_backend_pid()')
    for (let turn = 0; turn < 3; turn++) {
      await client.query('savepoint inner_one')
      await fails(client.query('select 1 / 0'), '22012')
      await client.query('rollback to inner_one')
      await whose(client, tag('savepoint', turn))
    }
    assert.strictEqual(await value(client, 'select pg_backend_pid()'), pid)
    await client.query('commit')
  }),

  big_value: () => withClient(async (client) => {
    const big = Buffer.alloc(BIG, Buffer.from(Array.from({ length: 256 }, (_, byte) => byte)))
    const sum = crypto.createHash('md5').update(big).digest('hex')
    assert.strictEqual(await value(client, 'select md5($1::bytea)', [big]), sum)
    assert.ok(big.equals(await value(client, 'select $1::bytea', [big])), 'other bytes came back')
    await whose(client, tag('big_value'))
  }),

  notice: () => withClient(async (client) => {
    const heard = []
    client.on('notice', (said) => heard.push(`${said.severity} ${said.message}`))
    await client.query(`do $$ begin raise notice '${tag('notice')}'; raise warning 'second'; end $$`)
    assert.deepStrictEqual(heard, [`NOTICE ${tag('notice')}`, 'WARNING second'])
  }),

  async types() {
    const values = {
      'int4[]': [1, -2, null, 3],
      'text[]': ['a', 'quoted " and \\', '', tag('types')],
      numeric: '12345678901234567890.123456789',
      timestamptz: new Date(Date.UTC(2026, 1, 28, 23, 59, 59, 999)),
      bytea: Buffer.from(Array.from({ length: 256 }, (_, byte) => byte)),
      uuid: '00000000-0000-0000-0000-000000001234',
      float8: 1e-300,
      bool: true,
      text: null,
      jsonb: { a: [1, null, { b: 'c' }] }
    }
    // As text: with `binary: true` the driver takes values as text and reads the answers wrongly, also directly.
    await withClient(async (client) => {
      for (const [name, wanted] of Object.entries(values)) {
        assert.deepStrictEqual(await value(client, `select $1::${name}`, [wanted]), wanted, name)
      }
    })
  },

  parameters: () => withClient((client) => withClient(async (other) => {
    await client.query("set timezone = 'Asia/Tokyo'")
    for (let turn = 0; turn < 5; turn++) {
      // The second keeps a server busy, so that the first does not always find the same one.
      await other.query('begin')
      assert.strictEqual(await value(other, 'show application_name'), 'other')
      assert.strictEqual(await value(client, 'show application_name'), 'mine')
      assert.strictEqual(await value(client, 'show timezone'), 'Asia/Tokyo')
      assert.notStrictEqual(await value(other, 'show timezone'), 'Asia/Tokyo')
      await other.query('commit')
    }
    // The driver's own pool.
    const pool = new Pool(settings('u', { max: 5 }))
    const marks = Array.from({ length: 100 }, (_, number) => tag('parameters', number))
    const found = await Promise.all(marks.map((mark) => pool.query('select $1::text as found', [mark])))
    assert.deepStrictEqual(found.map((result) => result.rows[0].found), marks)
    await pool.end()
  }, 'u', { application_name: 'other' }), 'u', { application_name: 'mine' }),

  close_midway: () => withClient(async (client) => {
    await client.query('create table if not exists locked_node (n int); truncate locked_node; insert into locked_node values (1)')
    const gone = await dial()
    await gone.query('begin; update locked_node set n = 2')
    // PostgreSQL itself lets the query of a vanished client run on.
    const mark = tag('close_midway')
    gone.query(`select pg_sleep(${isDirect ? 3 : 50}) /* ${mark} */`).catch(() => {})
    await awaitRunning(client, mark)
    gone.connection.stream.destroy()
    await client.query("begin; set local lock_timeout = '20s'")
    assert.strictEqual(await value(client, 'update locked_node set n = n + 10 returning n'), 11)
    await client.query('commit; drop table locked_node')
  }),

  server_gone: () => withClient(async (other) => {
    const client = await dial()
    await client.query('begin')
    const pid = await value(client, 'select pg_backend_pid()')
    const asleep = fails(client.query('select pg_sleep(10)'))
    await other.query('select pg_terminate_backend($1)', [pid])
    await asleep
    await fails(client.query('select 1'))
    await whose(other, tag('server_gone'))
  }),

  console_simple: async () => {
    throughPooler()
    await withClient(async (client) => {
      assert.ok((await client.query('show pools')).rows.some((row) => row.database === 'pgbouncer'))
      assert.match((await client.query('show version')).rows[0].version, /^PgBouncer /)
    }, 'stats', { database: 'pgbouncer' })
  },

  console_extended: async () => {
    throughPooler()
    await withClient(async (client) => {
      const { rows } = await client.query({ name: 'pools', text: 'show pools' })
      assert.ok(rows.some((row) => row.database === 'pgbouncer'))
      assert.match(await value(client, 'show version', []), /^PgBouncer /)
    }, 'stats', { database: 'pgbouncer' })
  }
}

const say = (line) => console.log(line.replace(/\s+/g, ' '))

async function outcome(run) {
  if (!run) return 'fail the program has no such case'
  const limit = new AbortController()
  const tooLong = timers.setTimeout(60000, undefined, { signal: limit.signal }).then(() => { throw new Error('60 seconds have passed') })
  tooLong.catch(() => {})
  try {
    await Promise.race([(async () => run())(), tooLong])
    return 'pass'
  } catch (error) {
    if (error instanceof Impossible) return `none ${error.message}`
    const line = /cases\.js:(\d+)/.exec(error.stack ?? '')?.[1]
    return `fail line ${line}: ${error.message ?? error}`
  } finally {
    limit.abort()
  }
}

async function main() {
  say(`version ${require('pg/package.json').version}`)
  for (const name of process.argv.slice(2)) {
    say(`begin ${name}`)
    say(`case ${name} ${await outcome(cases[name])}`)
  }
  // What a failed case has left open must not keep the program.
  process.exit(0)
}

main()
