package harness

import (
	"context"
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
	API            // of any gateway

	t             *testing.T // whose end is the fleet's
	startTemporal func(*testing.T) *Process

	mu      sync.Mutex
	members map[config.Role][]*Process
}

// outage is how long a call looks for a gateway that lives, and answers on a
// machine that may have stood still for a while.
const outage = 2 * time.Minute

var readyAddr = regexp.MustCompile(readyText + ` at (\S+)`)

// StartFleet starts so many gateways and workers.
func StartFleet(t *testing.T, gateways, workers int, env ...string) *Fleet {
	t.Helper()
	return startFleet(t, nil, gateways, workers, env)
}

// StartApart is StartFleet with a Redis that is a process of its own, so that
// Temporal and Redis can be stopped one without the other.
func StartApart(t *testing.T, gateways, workers int, env ...string) *Fleet {
	t.Helper()
	return startFleet(t, StartRedis(t), gateways, workers, env)
}

func startFleet(t *testing.T, redis *Server, gateways, workers int, env []string) *Fleet {
	t.Helper()
	f := &Fleet{t: t, Redis: redis, members: map[config.Role][]*Process{}}
	f.API = API{f.Call}
	parts := "temporal,redis"
	if redis != nil {
		parts = "temporal"
	}
	dir := filepath.Join(t.TempDir(), "data")
	f.startTemporal = func(now *testing.T) *Process {
		p := launch(t, dir, []string{"--only", parts}, env...)
		p.await(now)
		return p
	}
	f.Base = f.startTemporal(t)
	f.Env = append(f.Base.RoleSettings(t), RunMain+"="+RunRole, "WAYPOST_HTTP_ADDR=127.0.0.1:0", "WAYPOST_LOG_LEVEL=warn")
	if redis != nil {
		f.Env = append(f.Env, "WAYPOST_REDIS_URL="+redis.URL)
	}
	f.Add(t, gateways, workers)
	return f
}

// Add starts so many gateways and workers.
func (f *Fleet) Add(t *testing.T, gateways, workers int) {
	t.Helper()
	for range gateways {
		f.members[config.RoleGateway] = append(f.members[config.RoleGateway], f.Start(t, config.RoleGateway))
	}
	for range workers {
		f.members[config.RoleWorker] = append(f.members[config.RoleWorker], f.Start(t, config.RoleWorker))
	}
}

// StartTemporal starts Base again on the same addresses, after it was killed. It fails t, and
// runs until the fleet's test ends.
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
	p.use(&own)
	return p
}

// KillOne ends one of the processes as a power cut does, calls dead unless it is nil,
// and starts another one in its place.
func (f *Fleet) KillOne(t *testing.T, role config.Role, random *rand.Rand, dead func()) {
	t.Helper()
	members := f.members[role]
	i := random.IntN(len(members))
	f.replace(t, role, members[i:i+1], dead)
}

// KillAll is KillOne for all processes of a role at once.
func (f *Fleet) KillAll(t *testing.T, role config.Role, dead func()) {
	t.Helper()
	f.replace(t, role, f.members[role], dead)
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
	gateways := f.members[config.RoleGateway]
	return gateways[rand.IntN(len(gateways))].Client
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

// Launched is a launch as the API returns it.
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
	eventually(t, within, 8*pollPause, func() (bool, string) {
		l = Launched{}
		if err := f.Call(t.Context(), http.MethodGet, "/v1/launches/"+id, nil, &l); err != nil {
			t.Fatal(err)
		}
		return ok(l), fmt.Sprintf("the launch is not %s: %+v", what, l)
	})
	return l
}

// Standstill adds up for how long this machine did not run the test, until the test ends:
// a delay of that length is not Waypost's fault.
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

// LeadOf is the lead that a message is for, 0 if it names none.
func LeadOf(m waypost.Message) int64 {
	id, _ := strconv.ParseInt(m.UserProfile.AffID, 10, 64)
	return id
}

// NodeOf is the touchpoint that a message comes from.
func NodeOf(m waypost.Message) string {
	return m.JourneyInfo.ActionDefID[strings.LastIndexByte(m.JourneyInfo.ActionDefID, '/')+1:]
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

// Way is the enrollment's way: node and What of each timeline entry that led on.
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
