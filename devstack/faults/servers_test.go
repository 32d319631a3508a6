package faults

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"waypost"
	"waypost/config"
	"waypost/devstack/harness"
	"waypost/signature"
)

// outage does something to a deployment under load and undoes it after a while. What
// is asked for meanwhile may be refused with 503 and nothing else; while it lasts,
// during is called.
func (c *trial) outage(journeyID string, group int, lasts time.Duration, begin, during, end func()) {
	c.t.Helper()
	perSecond := harness.Scaled(10, 50)
	around := harness.Scaled(time.Second, 3*time.Second) // before and after it
	n := int((lasts+2*around)/time.Second+10) * perSecond
	stop := c.load(journeyID, c.fleet.MakeLeads(c.t, group, n), perSecond)
	defer stop()
	time.Sleep(around)
	begin()
	began := time.Now()
	during()
	time.Sleep(lasts - time.Since(began))
	end()
	c.over()
	time.Sleep(around)
	stop()
	c.judge()
}

// unavailable fails the case unless the gateways refuse a write with 503.
func (c *trial) unavailable() {
	c.t.Helper()
	harness.Eventually(c.t, time.Minute, func() (bool, string) {
		err := c.fleet.AnyGateway().Do(c.t.Context(), http.MethodPost, "/v1/leads", map[string]any{"businessParam": map[string]any{"name": "Ada"}}, nil)
		return waypost.CodeOf(err) == waypost.CodeServiceUnavailable, "a write is answered " + string(waypost.CodeOf(err))
	})
}

// Redis is gone: writes are refused, reads and deliveries go on.
func TestRedisGone(t *testing.T) {
	harness.Besides(t)
	f := harness.StartApart(t, 2, 2)
	c := begin(t, "Redis gone", f)
	r := harness.NewReceiver(t, flaky)
	journey := c.publish(r, double, nil)
	rate := harness.Scaled(10, 50)
	lasts := harness.Scaled(6*time.Second, 75*time.Second)
	c.outage(journey, 1, lasts, func() {
		c.launch(c.publish(r, single, nil), f.MakeLeads(t, 2, rate*int(lasts/time.Second)), rate)
		f.Redis.Stop(t)
	}, func() {
		c.unavailable()
		before := r.Messages()
		if err := f.AnyGateway().Do(t.Context(), http.MethodGet, "/v1/journeys/"+journey, nil, nil); err != nil {
			c.wrong("a read without Redis: %v", err)
		}
		harness.Eventually(t, time.Minute, func() (bool, string) { // deliveries go on
			came := r.Messages() - before
			return came >= rate, fmt.Sprintf("%d messages came without Redis", came)
		})
	}, func() { f.Redis.Start(t) })
}

// PostgreSQL is restarted as after a crash.
func TestPostgresRestarted(t *testing.T) {
	harness.Besides(t)
	pg := harness.StartPostgres(t)
	f := harness.StartApart(t, 2, 2, "WAYPOST_DATABASE_URL="+pg.URL)
	c := begin(t, "PostgreSQL restarted", f)
	journey := c.publish(harness.NewReceiver(t, flaky), double, nil)
	c.outage(journey, 1, harness.Scaled(3*time.Second, 20*time.Second),
		func() { pg.Stop(t) }, c.unavailable, func() { pg.Start(t) })
}

// The disk is full for SQLite until space comes free on it: writes are refused, and
// what was accepted goes on then.
func TestDiskFull(t *testing.T) {
	harness.Besides(t)
	f := harness.StartApart(t, 0, 0)
	db := openDatabase(t, f)
	defer db.Close()
	if _, err := db.ExecContext(t.Context(), "CREATE TABLE ballast (b BLOB)"); err != nil {
		t.Fatal(err)
	}
	if _, err := db.ExecContext(t.Context(), "INSERT INTO ballast VALUES (zeroblob(?))", harness.Scaled(16<<20, 128<<20)); err != nil {
		t.Fatal(err)
	}
	var pages int
	if err := db.QueryRowContext(t.Context(), "PRAGMA page_count").Scan(&pages); err != nil {
		t.Fatal(err)
	}
	f.Env = append(f.Env, harness.SQLitePages+"="+strconv.Itoa(pages+harness.Scaled(60, 500)))
	f.Add(t, 2, 2)
	c := begin(t, "disk full", f)
	journey := c.publish(harness.NewReceiver(t, flaky), double, nil)
	c.outage(journey, 1, harness.Scaled(3*time.Second, 40*time.Second), func() {}, c.unavailable, func() {
		if _, err := db.ExecContext(t.Context(), "DROP TABLE ballast"); err != nil {
			t.Fatal(err)
		}
	})
}

// The clock of one gateway, and of one of the workers, is minutes off: what is signed for
// that gateway is refused, and deliveries go on. They do so where it is off by seconds,
// more than the time-out of a webhook. What the worker records was when it says.
func TestClockOff(t *testing.T) {
	harness.Besides(t)
	f := harness.StartApart(t, 1, 1)
	offs := []time.Duration{10 * time.Minute, 20 * time.Second}
	if harness.Full {
		offs = append(offs, -10*time.Minute, -20*time.Second)
	}
	for i, off := range offs {
		t.Run(off.String(), func(t *testing.T) {
			clock := harness.Clock + "=" + off.String()
			wrong := f.Start(t, config.RoleGateway, clock)
			worker := f.Start(t, config.RoleWorker, clock, "WAYPOST_LOG_LEVEL=info") // it logs attempts
			c := begin(t, "clock off by "+off.String(), f)
			r := harness.NewReceiver(t, flaky)
			journey := c.publish(r, double, nil)
			rate := harness.Scaled(10, 50)
			seconds := harness.Scaled(5, 20)
			stop := c.load(journey, f.MakeLeads(t, 1+i, rate*seconds), rate)
			defer stop()
			err := wrong.Client.Do(t.Context(), http.MethodGet, "/v1/journeys/"+journey, nil, nil)
			if ok := err == nil; ok != (off.Abs() < signature.MaxAge) || !ok && !expired(err) {
				c.wrong("a gateway whose clock is off by %s answers %v", off, err)
			}
			time.Sleep(time.Duration(seconds) * time.Second) // so long leads come
			stop()
			c.judge()
			made := strings.Count(worker.Output.String(), `"msg":"attempt"`)
			t.Logf("the worker whose clock is off made %d attempts", made)
			if made == 0 {
				c.wrong("the worker whose clock is off by %s made no attempt: the case shows nothing", off)
			}
			ledger := r.Ledger()
			for _, rec := range c.records {
				for _, a := range rec.AttemptLog {
					if !slices.ContainsFunc(ledger[rec.MessageID], func(came harness.Received) bool { return came.At.Sub(a.At).Abs() < off.Abs()/2 }) {
						c.wrong("%s: attempt %d is recorded at %s, and the message did not come then", rec.MessageID, a.Attempt, a.At.Format(time.TimeOnly))
					}
				}
			}
		})
	}
}

// expired tells whether a request was refused because of its time.
func expired(err error) bool {
	var refused *waypost.Error
	return errors.As(err, &refused) && refused.Code == waypost.CodeUnauthorized &&
		slices.ContainsFunc(refused.Details, func(d waypost.Detail) bool { return d.Code == waypost.DetailRequestExpired })
}
