package e2e

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
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

// fleet is Waypost as it is deployed: gateways and workers that are processes of
// their own, several of each, beside Temporal and Redis.
type fleet struct {
	base *process // Temporal and Redis
	env  []string // of the roles

	mu       sync.Mutex
	gateways []*process
	workers  []*process
}

// outage is how long a call looks for a gateway that lives, and answers on a
// machine that may have stood still for a while.
const outage = 2 * time.Minute

var readyAddr = regexp.MustCompile(readyText + ` at (\S+)`)

// startFleet starts so many gateways and workers.
func startFleet(t *testing.T, gateways, workers int, env ...string) *fleet {
	t.Helper()
	f := &fleet{base: startProcess(t, filepath.Join(t.TempDir(), "data"), []string{"--only", "temporal,redis"}, env...)}
	f.env = append(f.base.roleSettings(t), runMain+"="+runRole, "WAYPOST_HTTP_ADDR=127.0.0.1:0", "WAYPOST_LOG_LEVEL=warn")
	for range gateways {
		f.gateways = append(f.gateways, f.start(t, config.RoleGateway))
	}
	for range workers {
		f.workers = append(f.workers, f.start(t, config.RoleWorker))
	}
	return f
}

// roleSettings are all settings with which roles of their own join this process.
func (p *process) roleSettings(t *testing.T) []string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(p.dir, datadir.EnvFile))
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

func (f *fleet) start(t *testing.T, role config.Role) *process {
	t.Helper()
	p := launch(t, f.base.dir, []string{string(role)}, f.env...)
	select {
	case <-p.output.ready:
	case <-p.exited:
		t.Fatalf("the %s ended:\n%s", role, p.output)
	case <-time.After(startTimeout):
		t.Fatalf("the %s is not ready after %s:\n%s", role, startTimeout, p.output)
	}
	own := *f.base.client
	own.URL = "http://" + readyAddr.FindStringSubmatch(p.output.String())[1]
	p.client = &own
	return p
}

// killOne ends one of the processes as a power cut does and starts another one in
// its place.
func (f *fleet) killOne(t *testing.T, role config.Role, random *rand.Rand) {
	t.Helper()
	members := map[config.Role][]*process{config.RoleGateway: f.gateways, config.RoleWorker: f.workers}[role]
	i := random.IntN(len(members))
	members[i].kill9(t)
	p := f.start(t, role)
	f.mu.Lock()
	defer f.mu.Unlock()
	members[i] = p
}

// anyGateway is the client of one of the gateways.
func (f *fleet) anyGateway() *client.Client {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.gateways[rand.IntN(len(f.gateways))].client
}

// call makes a call that may be made twice, at any gateway: one that does not
// answer may have been killed, and another one is asked.
func (f *fleet) call(ctx context.Context, method, path string, body, answer any) error {
	ctx, cancel := context.WithTimeout(ctx, outage)
	defer cancel()
	tick := time.NewTicker(pollPause)
	defer tick.Stop()
	for {
		err := f.anyGateway().Do(ctx, method, path, body, answer)
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

// do is call for calls that must succeed.
func (f *fleet) do(t *testing.T, method, path string, body, answer any) {
	t.Helper()
	if err := f.call(t.Context(), method, path, body, answer); err != nil {
		t.Error(err)
	}
}

// parallel calls do for 0 to n-1, sixteen at a time.
func parallel(n int, do func(i int)) {
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

// makeLeads makes n leads of one group.
func (f *fleet) makeLeads(t *testing.T, group, n int) []int64 {
	t.Helper()
	ids := make([]int64, n)
	parallel(n, func(i int) {
		var lead struct{ LeadsID int64 }
		f.do(t, http.MethodPost, "/v1/leads", map[string]any{"businessParam": map[string]any{
			"name": fmt.Sprintf("Ada %d", i), "leadsGroup": group,
		}}, &lead)
		ids[i] = lead.LeadsID
	})
	if t.Failed() {
		t.FailNow()
	}
	return ids
}

// launched is a launch as the API tells it.
type launched struct {
	ID        string                `json:"launchId"`
	Status    waypost.LaunchStatus  `json:"status"`
	Total     int                   `json:"total"`
	Enrolled  int                   `json:"enrolled"`
	Skipped   int                   `json:"skipped"`
	Completed int                   `json:"completed"`
	Outcomes  waypost.OutcomeCounts `json:"outcomes"`
}

// awaitLaunch asks for a launch until ok says yes.
func (f *fleet) awaitLaunch(t *testing.T, id string, within time.Duration, what string, ok func(launched) bool) (l launched) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	tick := time.NewTicker(8 * pollPause)
	defer tick.Stop()
	for {
		l = launched{}
		if err := f.call(t.Context(), http.MethodGet, "/v1/launches/"+id, nil, &l); err != nil {
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

// records reads all deliveries of a journey with their attempts.
func (f *fleet) records(t *testing.T, journeyID string) []record {
	t.Helper()
	var all []record
	for cursor := ""; ; {
		var page struct {
			Items      []record
			NextCursor *string
		}
		path := "/v1/deliveries?limit=500&journeyId=" + journeyID
		if cursor != "" {
			path += "&cursor=" + cursor
		}
		if err := f.call(t.Context(), http.MethodGet, path, nil, &page); err != nil {
			t.Fatal(err)
		}
		all = append(all, page.Items...)
		if page.NextCursor == nil {
			break
		}
		cursor = *page.NextCursor
	}
	parallel(len(all), func(i int) {
		f.do(t, http.MethodGet, "/v1/deliveries/"+all[i].MessageID, nil, &all[i])
	})
	return all
}

// standstill adds up how long this machine did not get round to running the test,
// until the test ends: what is late by so much is not Waypost's fault.
func standstill(t *testing.T) func() time.Duration {
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
