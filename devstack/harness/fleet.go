package harness

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"waypost"
	"waypost/client"
	"waypost/config"
	"waypost/devstack/datadir"
)

// Fleet is Waypost as it is deployed: gateways and workers that are processes of
// their own, several of each, beside Temporal and Redis.
type Fleet struct {
	Base  *Process // Temporal and, unless Redis is set, Redis
	Redis *Server
	Env   []string // of the roles

	t             *testing.T // whose end is the fleet's
	startTemporal func(*testing.T) *Process

	mu       sync.Mutex
	gateways []*Process
	workers  []*Process
}

// outage is how long a call looks for a gateway that lives, and answers on a
// machine that may have stood still for a while.
const outage = 2 * time.Minute

var readyAddr = regexp.MustCompile(readyText + ` at (\S+)`)

// StartFleet starts so many gateways and workers.
func StartFleet(t *testing.T, gateways, workers int, env ...string) *Fleet {
	t.Helper()
	f := &Fleet{t: t}
	f.startBase(t, "temporal,redis", env)
	f.Add(t, gateways, workers)
	return f
}

// StartApart is StartFleet with a Redis that is a process of its own, so that
// Temporal and Redis can be stopped one without the other.
func StartApart(t *testing.T, gateways, workers int, env ...string) *Fleet {
	t.Helper()
	f := &Fleet{t: t, Redis: StartRedis(t)}
	f.startBase(t, "temporal", env)
	f.Env = append(f.Env, "WAYPOST_REDIS_URL="+f.Redis.URL)
	f.Add(t, gateways, workers)
	return f
}

func (f *Fleet) startBase(t *testing.T, parts string, env []string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	f.startTemporal = func(now *testing.T) *Process {
		p := launch(t, dir, []string{"--only", parts}, env...)
		p.await(now)
		return p
	}
	f.Base = f.startTemporal(t)
	f.Env = append(f.Base.RoleSettings(t), RunMain+"="+RunRole, "WAYPOST_HTTP_ADDR=127.0.0.1:0", "WAYPOST_LOG_LEVEL=warn")
}

// Add starts so many gateways and workers.
func (f *Fleet) Add(t *testing.T, gateways, workers int) {
	t.Helper()
	for range gateways {
		f.gateways = append(f.gateways, f.Start(t, config.RoleGateway))
	}
	for range workers {
		f.workers = append(f.workers, f.Start(t, config.RoleWorker))
	}
}

// StartTemporal starts Temporal again, and what is in one process with it, on the same
// addresses, after Base was killed. It fails t, and runs until the fleet's test ends.
func (f *Fleet) StartTemporal(t *testing.T) {
	t.Helper()
	f.Base = f.startTemporal(t)
}

// RoleSettings are all settings with which roles of their own join this process.
func (p *Process) RoleSettings(t *testing.T) []string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(p.Dir, datadir.EnvFile))
	if err != nil {
		t.Fatal(err)
	}
	var env []string
	for line := range strings.Lines(string(b)) {
		if setting, ok := strings.CutPrefix(strings.TrimSpace(line), "export "); ok {
			name, value, _ := strings.Cut(setting, "=")
			env = append(env, name+"="+strings.Trim(value, "'"))
		}
	}
	return env
}

// Start starts one more role, which KillOne does not know. env is laid over the
// settings of the others.
func (f *Fleet) Start(t *testing.T, role config.Role, env ...string) *Process {
	t.Helper()
	return f.start(t, t, role, env...)
}

// start fails t; the process runs until owner ends.
func (f *Fleet) start(t, owner *testing.T, role config.Role, env ...string) *Process {
	t.Helper()
	p := launch(owner, f.Base.Dir, []string{string(role)}, slices.Concat(f.Env, env)...)
	p.awaitReady(t)
	own := *f.Base.Client
	own.URL = "http://" + readyAddr.FindStringSubmatch(p.Output.String())[1]
	p.Client = &own
	return p
}

// KillOne ends one of the processes as a power cut does, calls dead unless it is nil,
// and starts another one in its place.
func (f *Fleet) KillOne(t *testing.T, role config.Role, random *rand.Rand, dead func()) {
	t.Helper()
	members := f.members(role)
	i := random.IntN(len(members))
	f.replace(t, role, members[i:i+1], dead)
}

// KillAll is KillOne for all processes of a role at once.
func (f *Fleet) KillAll(t *testing.T, role config.Role, dead func()) {
	t.Helper()
	f.replace(t, role, f.members(role), dead)
}

func (f *Fleet) members(role config.Role) []*Process {
	return map[config.Role][]*Process{config.RoleGateway: f.gateways, config.RoleWorker: f.workers}[role]
}

// replace kills some of the members of a role and starts others in their place.
func (f *Fleet) replace(t *testing.T, role config.Role, members []*Process, dead func()) {
	t.Helper()
	for _, p := range members {
		p.Kill9(t)
	}
	if dead != nil {
		dead()
	}
	for i := range members {
		p := f.start(t, f.t, role) // it outlives a subtest
		f.mu.Lock()
		members[i] = p
		f.mu.Unlock()
	}
}

// AnyGateway is the client of one of the gateways.
func (f *Fleet) AnyGateway() *client.Client {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.gateways[rand.IntN(len(f.gateways))].Client
}

// Call makes a call that may be made twice, at any gateway: one that does not
// answer may have been killed, and another one is asked.
func (f *Fleet) Call(ctx context.Context, method, path string, body, answer any) error {
	ctx, cancel := context.WithTimeout(ctx, outage)
	defer cancel()
	tick := time.NewTicker(pollPause)
	defer tick.Stop()
	for {
		err := f.AnyGateway().Do(ctx, method, path, body, answer)
		if err == nil || errors.As(err, new(*waypost.Error)) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-tick.C:
		}
	}
}

// Do is call for calls that must succeed.
func (f *Fleet) Do(t *testing.T, method, path string, body, answer any) {
	t.Helper()
	if err := f.Call(t.Context(), method, path, body, answer); err != nil {
		t.Error(err)
	}
}

// Parallel calls do for 0 to n-1, sixteen at a time.
func Parallel(n int, do func(i int)) {
	next := make(chan int)
	var running sync.WaitGroup
	for range 16 {
		running.Go(func() {
			for i := range next {
				do(i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	running.Wait()
}

// MakeLeads makes n leads of one group.
func (f *Fleet) MakeLeads(t *testing.T, group, n int) []int64 {
	t.Helper()
	ids := make([]int64, n)
	Parallel(n, func(i int) {
		var lead struct{ LeadsID int64 }
		f.Do(t, http.MethodPost, "/v1/leads", map[string]any{"businessParam": map[string]any{
			"name": fmt.Sprintf("Ada %d", i), "leadsGroup": group,
		}}, &lead)
		ids[i] = lead.LeadsID
	})
	if t.Failed() {
		t.FailNow()
	}
	return ids
}

// Launched is a launch as the API tells it.
type Launched struct {
	ID        string                `json:"launchId"`
	Status    waypost.LaunchStatus  `json:"status"`
	Total     int                   `json:"total"`
	Enrolled  int                   `json:"enrolled"`
	Skipped   int                   `json:"skipped"`
	Completed int                   `json:"completed"`
	Outcomes  waypost.OutcomeCounts `json:"outcomes"`
}

// AwaitLaunch asks for a launch until ok says yes.
func (f *Fleet) AwaitLaunch(t *testing.T, id string, within time.Duration, what string, ok func(Launched) bool) (l Launched) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	tick := time.NewTicker(8 * pollPause)
	defer tick.Stop()
	for {
		l = Launched{}
		if err := f.Call(t.Context(), http.MethodGet, "/v1/launches/"+id, nil, &l); err != nil {
			t.Fatal(err)
		}
		if ok(l) {
			return l
		}
		select {
		case <-ctx.Done():
			t.Fatalf("after %s the launch is not %s: %+v", within, what, l)
		case <-tick.C:
		}
	}
}

// Records reads all deliveries of a journey with their attempts.
func (f *Fleet) Records(t *testing.T, journeyID string) []Record {
	t.Helper()
	return records(t, f.Call, journeyID)
}

// Standstill adds up how long this machine did not get round to running the test,
// until the test ends: what is late by so much is not Waypost's fault.
func Standstill(t *testing.T) func() time.Duration {
	const beat, noticed = 50 * time.Millisecond, 500 * time.Millisecond
	var sum atomic.Int64
	var watching sync.WaitGroup
	done := make(chan struct{})
	t.Cleanup(func() { close(done); watching.Wait() })
	watching.Go(func() {
		beats := time.NewTicker(beat)
		defer beats.Stop()
		for last := time.Now(); ; last = time.Now() {
			select {
			case <-done:
				return
			case <-beats.C:
			}
			if gap := time.Since(last); gap > noticed {
				sum.Add(int64(gap))
			}
		}
	})
	return func() time.Duration { return time.Duration(sum.Load()) }
}

// LeadOf is whom a message is for, 0 for nobody.
func LeadOf(m waypost.Message) int64 {
	id, _ := strconv.ParseInt(m.UserProfile.AffID, 10, 64)
	return id
}

// NodeOf is the touchpoint that a message comes from.
func NodeOf(m waypost.Message) string {
	return m.JourneyInfo.ActionDefID[strings.LastIndexByte(m.JourneyInfo.ActionDefID, '/')+1:]
}

// Publish makes a webhook that retries soon, and a published journey; the
// definition's %q is the webhook's id.
func (f *Fleet) Publish(t *testing.T, url, definition string, retry ...string) (journeyID string) {
	t.Helper()
	if len(retry) == 0 {
		retry = []string{"1s", "2s", "3s"}
	}
	var made struct{ ID string }
	f.Do(t, http.MethodPost, "/v1/webhooks", map[string]any{
		"name": "crm", "url": url, "timeoutMs": 8000, "retry": map[string]any{"schedule": retry, "giveUpAfter": "1h"},
	}, &made)
	f.Do(t, http.MethodPost, "/v1/journeys", json.RawMessage(fmt.Sprintf(definition, made.ID)), &made)
	f.Do(t, http.MethodPost, "/v1/journeys/"+made.ID+"/publish", nil, nil)
	if t.Failed() {
		t.FailNow()
	}
	return made.ID
}

// Enrolled is an enrollment with its deliveries.
type Enrolled struct {
	Enrollment
	Records []Record
}

// Enrollments reads the enrollments that deliveries belong to, by lead.
func (f *Fleet) Enrollments(t *testing.T, records []Record) map[int64]Enrolled {
	t.Helper()
	own := map[string][]Record{}
	for _, rec := range records {
		own[rec.EnrollmentID] = append(own[rec.EnrollmentID], rec)
	}
	ids := slices.Collect(maps.Keys(own))
	read := make([]Enrollment, len(ids))
	Parallel(len(ids), func(i int) { f.Do(t, http.MethodGet, "/v1/enrollments/"+ids[i], nil, &read[i]) })
	out := map[int64]Enrolled{}
	for i, id := range ids {
		lead := own[id][0].LeadsID
		if other, twice := out[lead]; twice {
			t.Errorf("lead %d is enrolled twice: %s and %s", lead, other.ID, id)
		}
		out[lead] = Enrolled{read[i], own[id]}
	}
	return out
}

// Step is a timeline entry that says what a node came to.
type Step struct{ Node, What string }

// Way is what an enrollment did: node and what of each entry that led on.
func (e Enrollment) Way() []Step {
	var steps []Step
	for _, entry := range e.Timeline {
		switch entry.What {
		case waypost.WhatEntered, waypost.WhatDeferred, waypost.WhatPaused, waypost.WhatResumed:
		default:
			steps = append(steps, Step{entry.NodeID, entry.What})
		}
	}
	return steps
}

// Setting is one of the settings of the roles.
func (f *Fleet) Setting(name string) string {
	for _, s := range slices.Backward(f.Env) {
		if value, ok := strings.CutPrefix(s, name+"="); ok {
			return value
		}
	}
	return ""
}
