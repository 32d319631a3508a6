package faults

import (
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	"waypost"
	"waypost/config"
	"waypost/devstack/harness"
)

// These stand among the roles that are killed.
const (
	temporal config.Role = "temporal"
	workers  config.Role = "workers" // all of them at once
)

// kill ends a process of a role as a power cut does, and starts it again.
func (c *trial) kill(role config.Role, random *rand.Rand) {
	c.t.Helper()
	began := time.Now()
	switch role {
	case temporal:
		c.fleet.Base.Kill9(c.t)
		c.fleet.StartTemporal(c.t)
	case config.RoleWorker:
		c.fleet.KillOne(c.t, role, random, c.cutOff)
	case workers:
		c.fleet.KillAll(c.t, config.RoleWorker, c.cutOff)
	default:
		c.fleet.KillOne(c.t, role, random, nil)
	}
	c.over()
	c.t.Logf("kill -9 of %s; all were ready again after %.1f s", role, time.Since(began).Seconds())
}

// Worker, gateway and Temporal are killed in turn while leads are enrolled and their
// messages are on their way, in delays and in retries.
func TestKills(t *testing.T) {
	harness.Besides(t)
	f := harness.StartApart(t, 2, 2)
	t.Run("in turn", func(t *testing.T) { killed(t, f, "kill -9 in turn", harness.Scaled(1, 5), false) })
	t.Run("at random", func(t *testing.T) { killed(t, f, "kill -9 at random", harness.Scaled(1, 5), true) })
	t.Run("Temporal away", func(t *testing.T) { temporalAway(t, f) })
}

// killed kills processes of each role so many times.
func killed(t *testing.T, f *harness.Fleet, name string, rounds int, random bool) {
	c := begin(t, name, f)
	r := harness.NewReceiver(t, flaky)
	journey := c.publish(r, double, nil)
	perSecond := harness.Scaled(10, 50)
	leads := f.MakeLeads(t, 1, perSecond*rounds*harness.Scaled(90, 40)+1)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	dice := rand.New(rand.NewPCG(seed, 0))
	stop := c.load(journey, leads[1:], perSecond)
	defer stop()
	roles := []config.Role{config.RoleWorker, config.RoleGateway, temporal, workers}
	for range rounds {
		for _, role := range roles {
			pause := harness.Scaled(time.Second, 2*time.Second)
			if random {
				role = roles[dice.IntN(len(roles))]
				pause = time.Duration(dice.IntN(harness.Scaled(1500, 3000))) * time.Millisecond
			}
			time.Sleep(pause) // the load goes on meanwhile
			c.kill(role, dice)
		}
	}
	c.enroll(journey, leads[0]) // somebody is enrolled after the last one, however long that took
	ran := stop()
	c.judge()
	// At a small size there may be none under way at a single kill.
	if !ran || !random && c.row.inFlight < harness.Scaled(0, 1) {
		c.wrong("the load ran until the last kill: %v; %d attempts were cut off", ran, c.row.inFlight)
	}
}

// While Temporal is away, enrollments are accepted, also by a gateway that starts
// meanwhile; they run when it is back.
func temporalAway(t *testing.T, f *harness.Fleet) {
	c := begin(t, "Temporal away", f)
	journey := c.publish(harness.NewReceiver(t, flaky), double, nil)
	c.outage(journey, 2, harness.Scaled(3*time.Second, time.Minute), func() { f.Base.Kill9(t) }, func() {
		gateway := f.Start(t, config.RoleGateway).Client
		for _, lead := range f.MakeLeads(t, 3, 10) {
			var e harness.Enrollment
			err := gateway.Do(t.Context(), http.MethodPost, "/v1/journeys/"+journey+"/enrollments", map[string]any{"leadsId": lead}, &e)
			if err != nil || e.Status != waypost.EnrollmentPending {
				c.wrong("without Temporal an enrollment is %q, %v", e.Status, err)
				continue
			}
			c.mu.Lock()
			c.accepted = append(c.accepted, enrolled{lead: lead, journey: journey, id: e.ID})
			c.mu.Unlock()
		}
	}, func() { f.StartTemporal(t) })
}
