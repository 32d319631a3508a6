package e2e

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"waypost"
	"waypost/devstack/harness"
	"waypost/workflows"
)

// documentedQueries reads the table of docs/operations.md, "Queries for the Web UI".
func documentedQueries(t *testing.T) map[string]string {
	t.Helper()
	page, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## Queries for the Web UI\n")
	section, _, _ = strings.Cut(section, "\n## ")
	queries := map[string]string{}
	for _, m := range regexp.MustCompile("(?m)^\\| ([^|]+) \\| `([^`]+)` \\|$").FindAllStringSubmatch(section, -1) {
		queries[m[1]] = m[2]
	}
	return queries
}

// madeWorkflow is a workflow, with what the queries ask about.
type madeWorkflow struct {
	id, kind, stage, journey, webhook string
	lead                              int64
	outcome                           string // that it is found by, if any
	running                           bool
	byHand                            bool // an operator has ended it
	late                              bool // it started after the time in the queries
}

// querying makes the workflows that queries are to find.
type querying struct {
	t        *testing.T
	url      string // of a receiver
	call     func(method, path string, body, answer any)
	temporal client.Client
	stage    waypost.Stage
	late     bool
	all      []*madeWorkflow
}

func (q *querying) add(w madeWorkflow) *madeWorkflow {
	w.stage, w.late = string(q.stage), q.late
	q.all = append(q.all, &w)
	return &w
}

// in has calls made in a stage.
func (q *querying) in(p *harness.Process, stage waypost.Stage) {
	c := *p.Client
	c.Header = http.Header{"X-Cloud-Stage": {string(stage)}}
	q.stage, q.call = stage, func(method, path string, body, answer any) {
		q.t.Helper()
		if err := c.Do(q.t.Context(), method, path, body, answer); err != nil {
			q.t.Fatal(err)
		}
	}
}

func (q *querying) webhook(enabled bool) string {
	q.t.Helper()
	var made struct{ ID string }
	q.call(http.MethodPost, "/v1/webhooks", map[string]any{
		"name": "w", "url": q.url, "enabled": enabled, "retry": map[string]any{"schedule": []string{"1h"}},
	}, &made)
	return made.ID
}

// journey publishes one that begins at hello; in members stands WEBHOOK for its webhook.
func (q *querying) journey(name, webhook, members string) string {
	q.t.Helper()
	var made struct{ ID string }
	definition := fmt.Sprintf(`{"name":%q,"start":"hello",%s}`, name, strings.ReplaceAll(members, "WEBHOOK", webhook))
	q.call(http.MethodPost, "/v1/journeys", json.RawMessage(definition), &made)
	q.call(http.MethodPost, "/v1/journeys/"+made.ID+"/publish", nil, nil)
	return made.ID
}

// enroll enrolls a new lead and waits until it has a workflow, which drives nobody else.
func (q *querying) enroll(journey, webhook, outcome string, running bool) *madeWorkflow {
	q.t.Helper()
	var lead struct{ LeadsID int64 }
	var e struct{ EnrollmentID, WorkflowID string }
	q.call(http.MethodPost, "/v1/leads", map[string]any{"businessParam": map[string]any{"name": "Ada"}}, &lead)
	q.call(http.MethodPost, "/v1/journeys/"+journey+"/enrollments", map[string]any{"leadsId": lead.LeadsID}, &e)
	harness.Eventually(q.t, time.Minute, func() (bool, string) {
		q.call(http.MethodGet, "/v1/enrollments/"+e.EnrollmentID, nil, &e)
		return e.WorkflowID != "", "the enrollment has no workflow"
	})
	return q.add(madeWorkflow{
		id: e.WorkflowID, kind: workflows.TypeJourney, journey: journey, webhook: webhook, lead: lead.LeadsID, outcome: outcome, running: running,
	})
}

func (q *querying) launch(journey string, running bool, body map[string]any) *madeWorkflow {
	q.t.Helper()
	var l struct{ LaunchID string }
	q.call(http.MethodPost, "/v1/journeys/"+journey+"/launches", body, &l)
	return q.add(madeWorkflow{id: l.LaunchID, kind: workflows.TypeLaunch, journey: journey, running: running})
}

// recurring makes a recurring launch for nobody, which opens one occurrence.
func (q *querying) recurring(journey string) (id string) {
	q.t.Helper()
	var l struct{ LaunchID string }
	q.call(http.MethodPost, "/v1/journeys/"+journey+"/launches", map[string]any{
		"audience": map[string]any{"filter": map[string]any{"leadsGroup": 999}}, "schedule": map[string]any{"cron": "0 0 1 1 *"},
	}, &l)
	schedule := scheduleOf(q.t, q.temporal, l.LaunchID)
	if err := schedule.Trigger(q.t.Context(), client.ScheduleTriggerOptions{}); err != nil {
		q.t.Fatal(err)
	}
	var opened struct{ Items []struct{ LaunchID string } }
	var actions []client.ScheduleActionResult
	harness.Eventually(q.t, time.Minute, func() (bool, string) {
		q.call(http.MethodGet, "/v1/launches?recurringId="+l.LaunchID, nil, &opened)
		about, err := schedule.Describe(q.t.Context())
		if err == nil {
			actions = about.Info.RecentActions
		}
		return len(opened.Items) == 1 && len(actions) == 1, fmt.Sprintf("%d occurrences are opened, the Schedule has fired %d times, %v", len(opened.Items), len(actions), err)
	})
	q.add(madeWorkflow{id: actions[0].StartWorkflowResult.WorkflowID, kind: workflows.TypeLaunchOccurrence, journey: journey})
	q.add(madeWorkflow{id: opened.Items[0].LaunchID, kind: workflows.TypeLaunch, journey: journey})
	return l.LaunchID
}

// redeliver sends the message of an enrollment once more.
func (q *querying) redeliver(w *madeWorkflow) *madeWorkflow {
	q.t.Helper()
	var list struct{ Items []struct{ MessageID string } }
	q.call(http.MethodGet, fmt.Sprintf("/v1/deliveries?leadsId=%d&status=succeeded", w.lead), nil, &list)
	q.call(http.MethodPost, "/v1/deliveries/"+list.Items[0].MessageID+"/redeliver", nil, nil)
	var id string
	harness.Eventually(q.t, time.Minute, func() (bool, string) {
		for _, found := range q.find(fmt.Sprintf("WorkflowType = %q", workflows.TypeRedelivery)) {
			if !slices.ContainsFunc(q.all, func(w *madeWorkflow) bool { return w.id == found }) {
				id = found
			}
		}
		return id != "", "the redelivery has no workflow"
	})
	return q.add(madeWorkflow{id: id, kind: workflows.TypeRedelivery, journey: w.journey, webhook: w.webhook, lead: w.lead})
}

// find returns the ids of the workflows that a query finds, sorted.
func (q *querying) find(query string) []string {
	q.t.Helper()
	page, err := q.temporal.ListWorkflow(q.t.Context(), &workflowservice.ListWorkflowExecutionsRequest{Namespace: "default", Query: query, PageSize: 1000})
	if err != nil {
		q.t.Fatalf("%s: %v", query, err)
	}
	var ids []string
	for _, e := range page.GetExecutions() {
		ids = append(ids, e.GetExecution().GetWorkflowId())
	}
	slices.Sort(ids)
	return ids
}

// await waits until so many workflows of a journey are found.
func (q *querying) await(journey string, n int, query string) {
	q.t.Helper()
	query = fmt.Sprintf("WorkflowType = %q AND WaypostJourney = %q AND %s", workflows.TypeJourney, journey, query)
	harness.Eventually(q.t, time.Minute, func() (bool, string) {
		found := q.find(query)
		return len(found) == n, fmt.Sprintf("%s finds %q", query, found)
	})
}

// queried are the workflows and ids that single queries are about.
type queried struct {
	waiting, recurring, hook, another      string
	stays, busy, held, launch, redelivered *madeWorkflow
	cut                                    time.Time // that the queries name
}

// arrange makes workflows of every kind.
func (q *querying) arrange(p *harness.Process) (m queried) {
	q.t.Helper()
	q.in(p, waypost.StageRelease)
	m.hook, m.another = q.webhook(true), q.webhook(true)
	disabled := q.webhook(false)
	const hello = `{"id":"hello","type":"touchpoint","webhook":"WEBHOOK"`
	m.waiting = q.journey("Waiting", m.hook, `"exitOn":[{"event":"left"}],"nodes":[`+hello+`,"next":"wait"},{"id":"wait","type":"delay","for":"72h"}]`)
	m.stays = q.enroll(m.waiting, m.hook, "", true)
	leaves := q.enroll(m.waiting, m.hook, "exited", false)
	canceled, terminated := q.enroll(m.waiting, m.hook, "", false), q.enroll(m.waiting, m.hook, "", false)
	q.await(m.waiting, 4, `WaypostNode = "wait"`)
	q.call(http.MethodPost, "/v1/events", map[string]any{"eventId": "e1", "name": "left", "leadsId": leaves.lead}, nil)
	if err := q.temporal.CancelWorkflow(q.t.Context(), canceled.id, ""); err != nil {
		q.t.Fatal(err)
	}
	if err := q.temporal.TerminateWorkflow(q.t.Context(), terminated.id, "", "an operator's"); err != nil {
		q.t.Fatal(err)
	}
	canceled.byHand, terminated.byHand = true, true
	q.await(m.waiting, 1, `ExecutionStatus = "Running"`)

	refused := q.journey("Refused", m.hook, `"nodes":[`+hello+`}]`)
	q.enroll(refused, m.hook, "failed", false)
	m.busy = q.enroll(q.journey("Busy", m.another, `"nodes":[`+hello+`}]`), m.another, "retrying", true)
	m.held = q.enroll(q.journey("Held", disabled, `"nodes":[`+hello+`}]`), disabled, "deferred", true)
	capped := q.journey("Capped", m.hook, `"frequencyCap":{"touchpoints":1,"per":"24h"},"nodes":[`+hello+`,"next":"again"},{"id":"again","type":"touchpoint","webhook":"WEBHOOK"}]`)
	q.enroll(capped, m.hook, "skipped", false)
	q.await(refused, 1, `ExecutionStatus = "Completed"`)

	time.Sleep(1100 * time.Millisecond) // the time in the queries is a whole second
	m.cut = time.Now().Truncate(time.Second)
	q.late = true
	q.enroll(refused, m.hook, "failed", false)
	q.enroll(m.waiting, m.hook, "", true)
	delivered := q.enroll(q.journey("Delivered", m.another, `"nodes":[`+hello+`}]`), m.another, "", false)
	q.await(delivered.journey, 1, `ExecutionStatus = "Completed"`)

	m.launch = q.launch(m.waiting, true, map[string]any{"audience": map[string]any{"filter": map[string]any{}}, "startAt": time.Now().Add(time.Hour)})
	q.launch(m.waiting, false, map[string]any{"audience": map[string]any{"leadsIds": []int64{1 << 40}}}) // there is no such lead
	q.launch(refused, false, map[string]any{"audience": map[string]any{"leadsIds": []int64{1 << 40}}})
	m.recurring = q.recurring(m.waiting)
	q.recurring(refused)
	var im struct{ ID string }
	q.call(http.MethodPost, "/v1/leads/imports?mode=create", map[string]any{"leads": []any{map[string]any{"name": "Ada"}}}, &im)
	q.add(madeWorkflow{id: im.ID, kind: workflows.TypeLeadImport})
	m.redelivered = q.redeliver(m.stays)
	q.redeliver(delivered)
	q.in(p, waypost.StageTest)
	inTest := q.webhook(true)
	q.enroll(q.journey("In test", inTest, `"nodes":[`+hello+`}]`), inTest, "", false)
	return m
}

// The queries of docs/operations.md find the workflows that they are for, and no others.
func TestDocumentedQueries(t *testing.T) {
	t.Parallel()
	r := harness.NewReceiver(t, func(m waypost.Message, _ int) harness.Answer {
		status := map[string]int{"Refused": http.StatusBadRequest, "Busy": http.StatusServiceUnavailable}[m.JourneyInfo.JourneyName]
		return harness.Answer{Status: cmp.Or(status, http.StatusOK)}
	})
	p := harness.StartProcess(t, filepath.Join(t.TempDir(), "data"), []string{"--no-demo"}, "WAYPOST_ENCRYPTION_KEYS="+scheduleKeys)
	q := &querying{t: t, url: r.URL, temporal: dialTemporal(t, p)}
	m := q.arrange(p)
	is := func(kind string) func(*madeWorkflow) bool {
		return func(w *madeWorkflow) bool { return w.kind == kind }
	}
	enrollment := func(also func(*madeWorkflow) bool) func(*madeWorkflow) bool {
		return func(w *madeWorkflow) bool { return w.kind == workflows.TypeJourney && also(w) }
	}
	had := func(outcome string) func(*madeWorkflow) bool {
		return enrollment(func(w *madeWorkflow) bool { return w.outcome == outcome })
	}
	finds := map[string]func(*madeWorkflow) bool{
		"Under way in a journey":      enrollment(func(w *madeWorkflow) bool { return w.running && w.journey == m.waiting }),
		"At a node":                   enrollment(func(w *madeWorkflow) bool { return w.running && w.journey == m.waiting }),
		"All of a lead":               func(w *madeWorkflow) bool { return w.lead == m.stays.lead },
		"A lead in a journey":         func(w *madeWorkflow) bool { return w.lead == m.stays.lead && w.journey == m.waiting },
		"Messages that were given up": had("failed"),
		"Given up since":              func(w *madeWorkflow) bool { return had("failed")(w) && w.late },
		"Being retried":               func(w *madeWorkflow) bool { return w == m.busy },
		"Held back":                   func(w *madeWorkflow) bool { return w == m.held },
		"Waiting for a webhook":       func(w *madeWorkflow) bool { return w == m.busy },
		"Skipped by a frequency cap":  had("skipped"),
		"Ended by an event":           had("exited"),
		"Ended by an operator":        func(w *madeWorkflow) bool { return w.byHand },
		"Under way for long":          enrollment(func(w *madeWorkflow) bool { return w.running && !w.late }),
		"Launches under way, or waiting for their start": func(w *madeWorkflow) bool { return w == m.launch },
		"Launches of a journey":                          func(w *madeWorkflow) bool { return w.kind == workflows.TypeLaunch && w.journey == m.waiting },
		"Occurrences of a recurring launch":              func(w *madeWorkflow) bool { return w.kind == workflows.TypeLaunchOccurrence && w.journey == m.waiting },
		"Imports":                                        is(workflows.TypeLeadImport),
		"Redeliveries":                                   is(workflows.TypeRedelivery),
		"Redeliveries through a webhook":                 func(w *madeWorkflow) bool { return w == m.redelivered },
		"Of an organisation and stage":                   func(w *madeWorkflow) bool { return w.stage == string(waypost.StageTest) },
	}
	webhooks := map[string]string{"Waiting for a webhook": m.another, "Redeliveries through a webhook": m.hook}
	queries := documentedQueries(t)
	for name, belongs := range finds {
		query := strings.NewReplacer(
			"jrn_…", m.waiting, "whk_…", webhooks[name], "lch_…", m.recurring, "1001", strconv.FormatInt(m.stays.lead, 10),
			"acme", demoScope.Org, "2026-01-31T12:00:00Z", m.cut.UTC().Format(time.RFC3339),
		).Replace(queries[name])
		var want []string
		for _, w := range q.all {
			if belongs(w) {
				want = append(want, w.id)
			}
		}
		if slices.Sort(want); query == "" || len(want) == 0 || len(want) == len(q.all) {
			t.Fatalf("%s: %q is to find %d of %d workflows", name, query, len(want), len(q.all))
		}
		harness.Eventually(t, time.Minute, func() (bool, string) {
			got := q.find(query)
			return slices.Equal(got, want), fmt.Sprintf("%s: %s\nfinds %q\n want %q", name, query, got, want)
		})
	}
	for name := range queries {
		if finds[name] == nil {
			t.Errorf("nothing tells what %q is to find", name)
		}
	}
}
