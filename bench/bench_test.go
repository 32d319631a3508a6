package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"waypost"
)

func message(i int) []byte {
	return fmt.Appendf(nil, `{"messageId":"msg_%d","version":"1.0","userProfile":{"affId":"%d"}}`, i, 1000+i)
}

// filled is the ledger of n messages, of which those that fail come twice.
func filled(s script, n int) (*ledger, []delivery) {
	l := (&receiver{}).begin("/x", s)
	var records []delivery
	for i := range n {
		d := delivery{MessageID: fmt.Sprintf("msg_%d", i), LeadsID: int64(1000 + i), Status: "succeeded", Attempts: 1}
		status, answer := l.note(message(i), time.Now())
		if status != 200 {
			d.Attempts++
			status, answer = l.note(message(i), time.Now())
		}
		if status != 200 || string(answer) == string(no) {
			d.Status = "failed"
		}
		records = append(records, d)
	}
	return l, records
}

func TestLedgerCompare(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		spoil func([]delivery) []delivery
		cut   bool
		want  string
	}{
		"agree":          {func(r []delivery) []delivery { return r }, false, ""},
		"not recorded":   {func(r []delivery) []delivery { return r[1:] }, false, "msg_0 arrived and is not recorded"},
		"never arrived":  {func(r []delivery) []delivery { return append(r, delivery{MessageID: "msg_x"}) }, false, "msg_x is recorded as  and never arrived"},
		"listed twice":   {func(r []delivery) []delivery { return append(r, r[0]) }, false, "msg_0 is listed twice"},
		"wrong outcome":  {func(r []delivery) []delivery { r[0].Status = "retrying"; return r }, false, "msg_0 is recorded as retrying"},
		"attempt more":   {func(r []delivery) []delivery { r[0].Attempts++; return r }, false, "attempts are recorded"},
		"attempt less":   {func(r []delivery) []delivery { r[0].Attempts--; return r }, true, "attempts are recorded"},
		"it was down":    {func(r []delivery) []delivery { r[0].Attempts++; return r }, true, ""},
		"many of them":   {func([]delivery) []delivery { return nil }, false, "and 195 more"},
		"nothing at all": {func(r []delivery) []delivery { clear(r); return r }, false, "is listed twice"},
	} {
		l, records := filled(script{fail: 10, refuse: 5}, 200)
		l.cut.Store(tt.cut)
		err := l.compare(tt.spoil(records))
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
	}
}

// The script does to about as many messages what it says, and to each message the
// same.
func TestScript(t *testing.T) {
	t.Parallel()
	l, records := filled(script{fail: 10, refuse: 5}, 5000)
	failed, refused := 0, 0
	for _, d := range records {
		if d.Attempts == 2 {
			failed++
		}
		if d.Status == "failed" {
			refused++
		}
	}
	if failed < 400 || failed > 600 || refused < 180 || refused > 320 {
		t.Errorf("%d failed and %d refused of 5,000", failed, refused)
	}
	sent := map[int64]time.Time{}
	l.each(func(_ string, a received) { sent[a.leadsID] = a.first.Add(-20 * time.Millisecond) })
	metrics, err := latencies(l, sent)
	if err != nil || len(sent) != 5000 || len(l.bodies()) != keptBodies*len(l.shards) {
		t.Fatalf("%d leads, %d bodies, %v", len(sent), len(l.bodies()), err)
	}
	for _, m := range metrics {
		if m.value != 20 {
			t.Errorf("%s is %v", m.name, m.value)
		}
	}
	sent[1] = time.Now()
	if _, err := latencies(l, sent); err == nil {
		t.Error("an enrollment that did not arrive is not missed")
	}
}

func TestSpread(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		values []float64
		want   string
	}{
		{[]float64{7}, "7 7 7"},
		{[]float64{3, 1}, "1 2 3"},
		{[]float64{9, 1, 2}, "1 2 9"},
		{[]float64{4, 1, 3, 2}, "1 2.5 4"},
	} {
		least, median, most := (&series{values: tt.values}).spread()
		if got := fmt.Sprint(least, median, most); got != tt.want {
			t.Errorf("%v: %s, want %s", tt.values, got, tt.want)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	for _, args := range []string{"--suite nothing", "--cases nothing", "--cases launch,", "--roles many", "--repeat 0", "--rate -1", "--refuse 91", "--suite asking --postgres=", "--suite asking --postgres=postgres://h/d --asking 5000", "launch", "--nothing"} {
		if _, err := parse(strings.Fields(args), io.Discard); err == nil {
			t.Errorf("%s is accepted", args)
		}
	}
	o, err := parse(nil, io.Discard)
	if err != nil || !slices.Equal(o.cases, suites["deliveries"]) || o.leads != 20_000 {
		t.Errorf("%+v, %v", o, err)
	}
}

// Each case is in one suite, but for the one that is to be asked for.
func TestSuites(t *testing.T) {
	t.Parallel()
	times := map[string]int{caseLaunchDown: 1}
	for _, cases := range suites {
		for _, name := range cases {
			times[name]++
		}
	}
	for _, name := range caseNames() {
		if times[name] != 1 {
			t.Errorf("%s is in %d suites", name, times[name])
		}
		delete(times, name)
	}
	if len(times) > 0 {
		t.Errorf("no cases: %v", times)
	}
}

// What the suite asking asks about is there, and its statistics are those of its enrollments.
func TestFill(t *testing.T) {
	t.Parallel()
	server := os.Getenv("WAYPOST_TEST_POSTGRES_URL")
	if server == "" {
		t.Skip("WAYPOST_TEST_POSTGRES_URL is not set")
	}
	p, err := newPostgres(t.Context(), server)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.drop(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	schema, err := os.ReadFile("../store/migrations/postgres/00001_schema.sql")
	if err != nil {
		t.Fatal(err)
	}
	f := filledStage{large: "jrn_large", launch: waypost.NewID(waypost.PrefixLaunch, time.Now()), n: leastAsked, percent: fewInTrouble}
	err = with(t.Context(), p.ours, func(db *pgx.Conn) error {
		ctx := t.Context()
		exec := func(text string) error {
			_, err := db.PgConn().Exec(ctx, text).ReadAll()
			return err
		}
		if err := exec(string(schema)); err != nil {
			return err
		}
		err := exec(`INSERT INTO webhooks (id, org, stage, name, name_folded, url, params, timeout_ms, retry, max_concurrency, enabled, disabled_reason, signing_overlap, channel, requires_consent, created_at, updated_at)
				VALUES ('whk_one', 'acme', 'release', 'w', 'w', 'https://example.com', '{}', 1000, '{}', 0, TRUE, '', 0, '', FALSE, 1, 1);
			INSERT INTO journeys SELECT id, 'acme', 'release', 'J', 'j', '{}', 1, 'published', 1, 1 FROM unnest(ARRAY['jrn_small', 'jrn_large']) AS id;
			INSERT INTO journey_versions SELECT id, 1, 'J', 'h', '{}', 1 FROM journeys;
			INSERT INTO journey_webhooks SELECT 'whk_one', id, 1 FROM journeys`)
		if err != nil {
			return err
		}
		if err := f.run(ctx, db, waypost.StageRelease, "jrn_small"); err != nil {
			return err
		}
		for text, want := range map[string]int{
			"SELECT count(*) FROM leads":                                                                            f.n,
			"SELECT count(*) FROM deliveries":                                                                       f.n,
			"SELECT count(*) FROM deliveries WHERE trouble IS NOT NULL":                                             f.n / 100 * fewInTrouble,
			"SELECT count(*) FROM deliveries WHERE http_status = 200 AND error_class = ''":                          f.n - f.n/100*fewInTrouble,
			"SELECT count(*) FROM enrollments WHERE launch_id = '" + f.launch + "'":                                 f.n / 4,
			fmt.Sprintf("SELECT count(*) FROM enrollments WHERE leads_id = %d", f.lead):                             f.n/1000 + 1,
			"SELECT count(DISTINCT place) FROM enrollments":                                                         largeNodes - 1 + 4,
			"SELECT count(*) FROM enrollments AS e WHERE NOT EXISTS (SELECT 1 FROM cohorts WHERE id = e.cohort_id)": 0,
			"SELECT sum(size) FROM cohorts":                                                                         f.n / 20 * 6,
			// What stands, and what came to its end, is counted where it does; an edge for each step.
			`SELECT count(*) FROM (SELECT node_id, count(*) AS n FROM enrollments WHERE status = 'waiting' GROUP BY 1) AS e
				JOIN statistics AS s ON s.span = 'all' AND (s.counts::json #>> ARRAY['n', node_id, 'w'])::int = e.n`: 24,
			"SELECT (counts::json ->> 'e')::int FROM statistics WHERE span = 'all'":                  f.n,
			"SELECT sum((counts::json ->> 'e')::int) FROM statistics WHERE span = 'hour'":            f.n,
			"SELECT sum((counts::json ->> 'c')::int) FROM statistics WHERE span = 'day'":             f.n / 20 * 12,
			"SELECT (counts::json #>> '{n,n48,x,n49 next}')::int FROM statistics WHERE span = 'all'": f.n / 20 * 12,
			"SELECT (counts::json #>> '{n,n00,e}')::int FROM statistics WHERE span = 'all'":          f.n,
			"SELECT count(*) FROM journey_keys WHERE value = 'rare'":                                 1,
			"SELECT count(*) FROM launches WHERE ended = 'canceled'":                                 1,
		} {
			var got int
			if err := db.QueryRow(ctx, text).Scan(&got); err != nil || got != want {
				t.Errorf("%s: %d, %v, want %d", text, got, err, want)
			}
		}
		for text, prefix := range map[string]string{
			"SELECT message_id, first_attempt_at FROM deliveries WHERE leads_id % 997 = 0": waypost.PrefixMessage,
			"SELECT id, created_at FROM enrollments WHERE leads_id % 997 = 0":              waypost.PrefixEnrollment,
		} {
			var id string
			var at int64
			rows, err := db.Query(ctx, text)
			if err != nil {
				return err
			}
			n := 0
			_, err = pgx.ForEachRow(rows, []any{&id, &at}, func() error {
				if n++; !waypost.IDTime(prefix, id).Equal(time.UnixMicro(at).Truncate(time.Millisecond)) {
					t.Errorf("%s is no id of %d", id, at)
				}
				return nil
			})
			if err != nil || n == 0 {
				t.Errorf("%s: %d rows, %v", text, n, err)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestStolenSince(t *testing.T) {
	t.Parallel()
	if share, ok := (hostTimes{300, 30}).stolenSince(hostTimes{100, 10}); !ok || share != 0.1 {
		t.Errorf("%v, %t were stolen, want a tenth", share, ok)
	}
	if _, ok := (hostTimes{}).stolenSince(hostTimes{}); ok {
		t.Error("something is known without /proc/stat")
	}
	if now := readHostTimes(); runtime.GOOS == "linux" && now.all == 0 {
		t.Error("/proc/stat is not read")
	}
}

// The process's own cost grows with what it does.
func TestCost(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		if found := look([]measured{{name: "self", pid: os.Getpid()}}); len(found) > 0 {
			t.Errorf("%v without /proc", found)
		}
		return
	}
	self := []measured{{name: "self", pid: os.Getpid()}}
	before := begin(self)["self"]
	for after := before; after.cpu == before.cpu; after = look(self)["self"] { // until a tick has passed
		if after.peak < 1<<20 {
			t.Fatalf("the peak is %d bytes", after.peak)
		}
	}
	parent := measured{name: "family", pid: os.Getppid(), family: true}
	if c, ok := parent.cost(); !ok || c.cpu < before.cpu {
		t.Errorf("the parent's family cost %v, this child alone %v", c.cpu, before.cpu)
	}
}
