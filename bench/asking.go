package main

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"waypost"
)

// How much is asked.
const (
	warmCalls  = 3   // of each request, before it is measured
	askedCalls = 200 // of each request, or leastCalls if it takes longer than requestTime
	leastCalls = 20
	deepPages  = 100    // of 500, before the pages that are called deep
	leastAsked = 10_000 // of --asking: what is rare is there then
	largeNodes = 50
	// Percent of the deliveries of release and of troubledStage that are in trouble.
	fewInTrouble, manyInTrouble = 5, 50
	troubledStage               = waypost.StageTest
)

// fillSQL makes what is asked about.
//
//go:embed asking.sql
var fillSQL string

// smallJourney and largeJourney are those of asking.sql; %q is the webhook.
const smallJourney = `{"name":"Small","tags":["spring"],"start":"hello","nodes":[{"id":"hello","type":"touchpoint","webhook":%q}]}`

func largeJourney() string {
	var nodes []string
	for i := range largeNodes - 1 {
		how := `"type":"touchpoint","webhook":%[1]q`
		if i%2 == 1 {
			how = `"type":"delay","for":"24h"`
		}
		nodes = append(nodes, fmt.Sprintf(`{"id":"n%02d",%s,"next":"n%02d"}`, i, how, i+1))
	}
	return `{"name":"Large","start":"n00","nodes":[` + strings.Join(nodes, ",") + `,{"id":"n49","type":"exit"}]}`
}

// filledStage is a stage with what is asked about.
type filledStage struct {
	*caller
	large, launch string // ids
	lead          int64  // the one that has many enrollments
	n             int    // enrollments in the journey large, leads, and deliveries
	percent       int    // of the deliveries that are in trouble
}

// fill makes a stage for asking.sql and runs that. Only release has more than deliveries.
func (b *bench) fill(ctx context.Context, stage waypost.Stage, percent int) (filledStage, error) {
	n := b.o.asking
	b.tell("fill the stage %s with %d deliveries, %d %% of them in trouble", stage, n, percent)
	c := b.stack.client()
	c.Header = http.Header{"X-Cloud-Stage": {string(stage)}}
	t := bench{o: b.o, client: c, receiver: b.receiver, runs: b.runs}
	small, err := t.prepare(ctx, smallJourney, script{})
	if err != nil {
		return filledStage{}, err
	}
	large, err := t.prepare(ctx, largeJourney(), script{})
	if err != nil {
		return filledStage{}, err
	}
	b.runs = t.runs
	f := filledStage{c, large.journeyID, waypost.NewID(waypost.PrefixLaunch, time.Now()), 0, n, percent}
	return f, with(ctx, b.stack.postgres.ours, func(db *pgx.Conn) error { return f.run(ctx, db, stage, small.journeyID) })
}

// run has a database run asking.sql.
func (f *filledStage) run(ctx context.Context, db *pgx.Conn, stage waypost.Stage, small string) error {
	var org, webhook string
	err := db.QueryRow(ctx, `UPDATE journeys AS j SET created_at = created_at - 40 * 86400000000 FROM journey_webhooks AS w
		WHERE j.id = $1 AND w.journey_id = j.id RETURNING j.org, w.webhook_id`, f.large).Scan(&org, &webhook)
	if err != nil {
		return err
	}
	rows := f.n
	if stage == troubledStage {
		rows = 0
	}
	if err := db.QueryRow(ctx, "SELECT 1 + COALESCE(max(leads_id), 0) FROM leads").Scan(&f.lead); err != nil {
		return err
	}
	text := strings.NewReplacer("{org}", org, "{stage}", string(stage), "{small}", small, "{large}", f.large, "{launch}", f.launch, "{webhook}", webhook,
		"{now}", strconv.FormatInt(time.Now().UnixMicro(), 10), "{n}", strconv.Itoa(f.n), "{percent}", strconv.Itoa(f.percent),
		"{first}", strconv.FormatInt(f.lead, 10), "{leads}", strconv.Itoa(rows), "{enrollments}", strconv.Itoa(rows),
		"{journeys}", strconv.Itoa(max(1, rows/500)), "{launches}", strconv.Itoa(rows/50)).Replace(fillSQL)
	// All statements at once, in one transaction.
	if _, err = db.PgConn().Exec(ctx, text).ReadAll(); err != nil {
		return fmt.Errorf("fill the stage %s: %w", stage, err)
	}
	return nil
}

// ask fills two stages and asks, one client alone.
func (b *bench) ask(ctx context.Context, cases []string) error {
	release, err := b.fill(ctx, waypost.StageRelease, fewInTrouble)
	if err != nil {
		return err
	}
	troubled, err := b.fill(ctx, troubledStage, manyInTrouble)
	if err != nil {
		return err
	}
	if err := b.stack.postgres.vacuum(ctx); err != nil {
		return err
	}
	do := map[string]func(context.Context) error{
		caseStatistics:  func(ctx context.Context) error { return b.askStatistics(ctx, release) },
		caseEnrollments: func(ctx context.Context) error { return b.askEnrollments(ctx, release) },
		caseSummary:     func(ctx context.Context) error { return b.askSummaries(ctx, release, troubled) },
		casePages:       func(ctx context.Context) error { return b.askDeliveries(ctx, release) },
		caseLists:       func(ctx context.Context) error { return b.askLists(ctx, release) },
		caseCount:       func(ctx context.Context) error { return b.askCounts(ctx, release) },
		caseEvents:      func(ctx context.Context) error { return b.importEvents(ctx, release) },
		caseSegments:    func(ctx context.Context) error { return b.askSegments(ctx, release) },
	}
	for _, name := range cases {
		b.tell("%s", name)
		if err := do[name](ctx); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// answered is what the cases read of an answer.
type answered struct {
	Items       []json.RawMessage
	NextCursor  *string
	Groups      []struct{ Count int }
	Nodes       []json.RawMessage
	Enrollments struct{ Entered int }
	Series      []struct{ Enrollments struct{ Entered int } }
	Count       int
}

// asked is a request that is made over and over.
type asked struct {
	of, what string // the case, and what is asked for
	within   int    // the milliseconds that p99 is to stay within, 0: nothing is asked for
	calls    int
	took     []time.Duration
}

// measureAsked makes calls, one after the other. next makes one, checks its answer, and tells
// how long that took to come.
func (b *bench) measureAsked(ctx context.Context, of, what string, within int, next func(context.Context) (time.Duration, error)) error {
	a := asked{of: of, what: what, within: within}
	for began := time.Now(); len(a.took) < askedCalls && (len(a.took) < leastCalls || time.Since(began) < b.requestTime()); {
		took, err := next(ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		if a.calls++; a.calls > warmCalls {
			a.took = append(a.took, took)
		}
	}
	slices.Sort(a.took)
	b.report.asked = append(b.report.asked, a)
	return nil
}

// call makes one call and tells how long its answer took to come.
func (f filledStage) call(ctx context.Context, method, target string, body []byte) (got answered, took time.Duration, err error) {
	began := time.Now()
	res, err := f.Send(ctx, method, target, http.Header{"Content-Type": jsonType}, body)
	if err != nil {
		return got, 0, err
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	took = time.Since(began)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("HTTP %d: %.200s", res.StatusCode, answer)
	}
	if err == nil {
		err = json.Unmarshal(answer, &got)
	}
	return got, took, err
}

// askSame asks for the same again and again.
func (b *bench) askSame(ctx context.Context, f filledStage, of, target string, within int, check func(answered) error) error {
	return b.measureAsked(ctx, of, f.readable(target), within, func(ctx context.Context) (time.Duration, error) {
		got, took, err := f.call(ctx, http.MethodGet, target, nil)
		if err == nil {
			err = check(got)
		}
		return took, err
	})
}

// readable is a target without the ids of a run.
func (f filledStage) readable(target string) string {
	return strings.NewReplacer(f.large, "large", f.launch, "launch", "leadsId="+strconv.FormatInt(f.lead, 10), "leadsId=1", "/v1/", "").Replace(target)
}

// pages are those of a list, from begin to its end and then from begin again.
type pages struct {
	filledStage
	target        string
	begin, cursor *string
	items         int // that came
}

func (p *pages) next(ctx context.Context, limit int) (time.Duration, error) {
	if p.cursor == nil {
		p.cursor = p.begin
	}
	target := p.target + "&limit=" + strconv.Itoa(limit)
	if p.cursor != nil {
		target += "&cursor=" + url.QueryEscape(*p.cursor)
	}
	got, took, err := p.call(ctx, http.MethodGet, target, nil)
	p.cursor = got.NextCursor
	p.items += len(got.Items)
	return took, err
}

// askPages measures the pages of a list from its beginning, and then those that follow
// deepPages of 500 or, if there are not so many, the last one.
func (b *bench) askPages(ctx context.Context, f filledStage, of, target string, limit, within int) error {
	p := pages{filledStage: f, target: target}
	measure := func(where string) error {
		what := fmt.Sprintf("%s, %d a page%s", f.readable(target), limit, where)
		err := b.measureAsked(ctx, of, what, within, func(ctx context.Context) (time.Duration, error) { return p.next(ctx, limit) })
		if err == nil && p.items == 0 {
			err = fmt.Errorf("%s: nothing is listed", what)
		}
		return err
	}
	if err := measure(""); err != nil {
		return err
	}
	p = pages{filledStage: f, target: target}
	for range deepPages {
		if _, err := p.next(ctx, 500); err != nil {
			return err
		}
		if p.cursor == nil {
			break
		}
		p.begin = p.cursor
	}
	p.items = 0
	return measure(", deep")
}

// askStatistics measures the statistics of the large journey, and checks each answer against the
// enrollments that were made.
func (b *bench) askStatistics(ctx context.Context, f filledStage) error {
	target := "/v1/journeys/" + f.large + "/statistics"
	day := time.Now().UTC().Truncate(24 * time.Hour)
	for _, c := range []struct {
		query  string
		points int // at least
	}{
		{"", 0},
		{"?from=" + day.AddDate(0, 0, -7).Format(time.RFC3339), 0},
		{"?every=day", 30},
		{"?every=hour&from=" + day.AddDate(0, 0, -7).Format(time.RFC3339), 7 * 24},
		{"?every=hour&from=" + day.AddDate(0, 0, -30).Format(time.RFC3339), 30 * 24},
	} {
		err := b.askSame(ctx, f, caseStatistics, target+c.query, 50, func(got answered) error {
			entered := 0
			for _, point := range got.Series {
				entered += point.Enrollments.Entered
			}
			switch {
			case len(got.Nodes) != largeNodes || len(got.Series) < c.points:
				return fmt.Errorf("%d nodes and %d points are told", len(got.Nodes), len(got.Series))
			case c.query == "" && got.Enrollments.Entered != f.n, c.points > 0 && entered != got.Enrollments.Entered, got.Enrollments.Entered == 0:
				return fmt.Errorf("%d enrollments are counted, %d of the series", got.Enrollments.Entered, entered)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) askEnrollments(ctx context.Context, f filledStage) error {
	for _, query := range []string{
		"journeyId=" + f.large, "journeyId=" + f.large + "&nodeId=n03", "journeyId=" + f.large + "&nodeId=n25", "journeyId=" + f.large + "&nodeId=n03&sort=createdAt",
		"journeyId=" + f.large + "&status=waiting", "journeyId=" + f.large + "&status=failed", "journeyId=" + f.large + "&status=waiting,exited",
		"leadsId=" + strconv.FormatInt(f.lead, 10), "launchId=" + f.launch, "launchId=" + f.launch + "&status=canceled",
	} {
		if err := b.askPages(ctx, f, caseEnrollments, "/v1/enrollments?"+query, 50, 20); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) askSummaries(ctx context.Context, stages ...filledStage) error {
	day := time.Now().UTC().Truncate(24 * time.Hour)
	for _, f := range stages {
		for _, query := range []string{
			"", "?groupBy=errorClass,httpStatus,nodeId", "?groupBy=errorClass,httpStatus,webhookId,nodeId", "?journeyId=" + f.large,
			"?from=" + day.AddDate(0, 0, -1).Format(time.RFC3339), "?errorClass=timeout&groupBy=nodeId", "?status=retrying",
		} {
			of := fmt.Sprintf("%s, %d %% in trouble", caseSummary, f.percent)
			err := b.askSame(ctx, f, of, "/v1/deliveries/summary"+query, 200, func(got answered) error {
				n := 0
				for _, group := range got.Groups {
					n += group.Count
				}
				if want := f.n / 100 * f.percent; n == 0 || query == "" && n != want {
					return fmt.Errorf("%d deliveries are in the groups, want %d", n, want)
				}
				return nil
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

func (b *bench) askDeliveries(ctx context.Context, f filledStage) error {
	for _, query := range []string{
		"status=failed", "status=failed,retrying", "status=succeeded", "errorClass=timeout", "httpStatus=404", "nodeId=n04", "nodeId=n04&status=failed",
		"journeyId=" + f.large, "journeyId=" + f.large + "&status=retrying", "journeyId=" + f.large + "&nodeId=n04&errorClass=tls",
	} {
		for _, limit := range []int{20, 500} {
			if err := b.askPages(ctx, f, casePages, "/v1/deliveries?"+query, limit, 200); err != nil {
				return err
			}
		}
	}
	return nil
}

func (b *bench) askLists(ctx context.Context, f filledStage) error {
	for _, target := range []string{
		"/v1/launches?status=canceled", "/v1/launches?status=completed", "/v1/launches?journeyId=" + f.large,
		"/v1/journeys?tag=rare", "/v1/journeys?status=archived", "/v1/journeys?name=Large", "/v1/journeys?tag=spring&status=archived",
	} {
		if err := b.askPages(ctx, f, caseLists, target, 50, 0); err != nil {
			return err
		}
	}
	return nil
}

// askCounts counts audiences of a launch.
func (b *bench) askCounts(ctx context.Context, f filledStage) error {
	first := strconv.FormatInt(f.lead, 10)
	for _, c := range []struct {
		audience string
		want     int
	}{
		{`{"filter":{"leadsGroup":7}}`, f.n / 100},
		{`{"filter":{"customFields":{"plan":"gold"}}}`, f.n / 10},
		{`{"filter":{"leadsGroup":7,"customFields":{"plan":"free"}}}`, f.n / 100},
		{`{"filter":{"externalId":"release-1"}}`, 1},
		{`{"filter":{}}`, 0}, // others have made leads, too
		{`{"leadsIds":[` + first + `,` + first + `]}`, 1},
	} {
		body := []byte(`{"audience":` + c.audience + `}`)
		err := b.measureAsked(ctx, caseCount, c.audience, 0, func(ctx context.Context) (time.Duration, error) {
			got, took, err := f.call(ctx, http.MethodPost, "/v1/leads/count", body)
			if err == nil && (got.Count == 0 || c.want > 0 && got.Count != c.want) {
				err = fmt.Errorf("%d leads are counted, want %d", got.Count, c.want)
			}
			return took, err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// askSegments counts segments that SQL answers, lists their members, and counts one whose
// leads are evaluated.
func (b *bench) askSegments(ctx context.Context, f filledStage) error {
	create := func(when string) (target string, err error) {
		body, err := json.Marshal(map[string]string{"name": "asked", "when": when})
		if err != nil {
			return "", err
		}
		res, err := f.Send(ctx, http.MethodPost, "/v1/segments", http.Header{"Content-Type": jsonType}, body)
		if err != nil {
			return "", err
		}
		_ = res.Body.Close() // only the Location counts
		if res.StatusCode != http.StatusCreated {
			return "", fmt.Errorf("%s: HTTP %d", when, res.StatusCode)
		}
		return res.Header.Get("Location"), nil
	}
	for _, c := range []struct {
		when   string
		within int // milliseconds
	}{
		{`lead.gender == 1 && lead.customFields.plan == "gold"`, 2000},
		{`lead.region > 310500.0 || lead.email.endsWith("7@example.com") || lead.customFields.branch in ["b1", "b2", "b3"]`, 2000},
		{`lead.createdAt > now - duration("240h") && !(lead.customFields.plan == "free")`, 2000},
		{`events("viewed", duration("720h")).count() > 0`, 5000},
		{`events("viewed").count() >= 2 && events("purchased", duration("720h")).count() == 0`, 5000},
		{fmt.Sprintf("delivered(%q, \"n04\") && lead.gender == 2", f.large), 5000},
	} {
		target, err := create(c.when)
		if err != nil {
			return err
		}
		err = b.measureAsked(ctx, caseSegments, strings.ReplaceAll(c.when, f.large, "large"), c.within, func(ctx context.Context) (time.Duration, error) {
			got, took, err := f.call(ctx, http.MethodGet, target+"/count", nil)
			if err == nil && (got.Count == 0 || got.Count == f.n) {
				err = fmt.Errorf("%d leads are counted, which is nobody or everybody", got.Count)
			}
			return took, err
		})
		if err != nil {
			return err
		}
		if err := b.askPages(ctx, f, caseSegments, target+"/members?", 50, 0); err != nil {
			return err
		}
	}
	for _, when := range []string{`lead.name.size() > 6.0`, `events("purchased", duration("P60D")).exists(e, e.amount > 100.0) || lead.name.size() > 100.0`} {
		target, err := create(when)
		if err != nil {
			return err
		}
		for range b.o.repeat {
			err := b.one(ctx, caseSegments, func(ctx context.Context) (outcome, error) {
				got, took, err := f.call(ctx, http.MethodGet, target+"/count", nil)
				return outcome{deliveries: f.n, metrics: []metric{{"leads evaluated/s (40,000 are asked for): " + when, float64(f.n) / took.Seconds()}}, check: func() error {
					if got.Count == 0 {
						return errors.New("nobody is counted")
					}
					return nil
				}}, err
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// eventPart is how many events one request brings.
const eventPart = 10_000

// importEvents imports events of all leads, each time others, from the first request to the
// last answer.
func (b *bench) importEvents(ctx context.Context, f filledStage) error {
	for range b.o.repeat {
		b.runs++
		var parts [][]byte
		for from := 0; from < b.o.rows; from += eventPart {
			var part bytes.Buffer
			for i := from; i < min(b.o.rows, from+eventPart); i++ {
				fmt.Fprintf(&part, `{"eventId":"bench-%d-%d","name":"purchase","leadsId":%d,"properties":{"amount":%d,"product":"p-%d"}}`+"\n",
					b.runs, i, f.lead+int64(i*7919%f.n), i%200, i%50)
			}
			parts = append(parts, part.Bytes())
		}
		err := b.one(ctx, caseEvents, func(ctx context.Context) (outcome, error) {
			began := time.Now()
			for _, part := range parts {
				res, err := f.Send(ctx, http.MethodPost, "/v1/events/import", http.Header{"Content-Type": {"application/x-ndjson"}}, part)
				if err != nil {
					return outcome{}, err
				}
				answer, err := io.ReadAll(res.Body)
				_ = res.Body.Close() // it was read
				if err != nil || res.StatusCode != http.StatusAccepted {
					return outcome{}, fmt.Errorf("not all events are accepted: HTTP %d: %.200s, %w", res.StatusCode, answer, err)
				}
			}
			took := time.Since(began)
			return outcome{deliveries: b.o.rows, metrics: []metric{{"events/s (5,000 are asked for)", float64(b.o.rows) / took.Seconds()}}, check: func() error {
				got, _, err := f.call(ctx, http.MethodGet, fmt.Sprintf("/v1/events?name=purchase&leadsId=%d", f.lead), nil)
				if err == nil && len(got.Items) == 0 {
					err = errors.New("an event that was accepted is not listed")
				}
				return err
			}}, nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}
