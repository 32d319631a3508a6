package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"

	"waypost"
	"waypost/devstack/datadir"
	"waypost/devstack/harness"
)

// marketer does a story with the command line, and sends journeys to a receiver.
type marketer struct {
	t        *testing.T
	binary   string
	dir      string // the data directory of waypost-dev
	receiver *harness.Receiver
}

// run runs a command that must succeed, and returns what it prints.
func (m marketer) run(args ...string) string {
	m.t.Helper()
	cmd := exec.CommandContext(m.t.Context(), m.binary, args...)
	cmd.Env = append(os.Environ(), "WAYPOST_PROFILE="+filepath.Join(m.dir, datadir.ProfileFile))
	out, err := cmd.CombinedOutput()
	if err != nil {
		m.t.Fatalf("waypost %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// id runs a command with -o json, and returns a member of its answer.
func (m marketer) id(member string, args ...string) string {
	m.t.Helper()
	var answer map[string]any
	out := m.run(append(args, "-o", "json")...)
	if err := json.Unmarshal([]byte(out), &answer); err != nil {
		m.t.Fatalf("waypost %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return fmt.Sprint(answer[member])
}

// file writes a file for a command.
func (m marketer) file(name string, lines ...string) string {
	m.t.Helper()
	path := filepath.Join(m.t.TempDir(), name)
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		m.t.Fatal(err)
	}
	return path
}

// publish makes a webhook of the receiver that the file calls email, and publishes the file.
func (m marketer) publish(path string) (journeyID string) {
	m.t.Helper()
	webhook := m.id("id", "webhooks", "create", "--name", "email", "--url", m.receiver.URL)
	return m.id("journeyId", "journeys", "apply", "-f", path, "--set", "email="+webhook, "--publish")
}

// shown waits until the journey's tree has these texts.
func (m marketer) shown(journeyID string, texts ...string) {
	m.t.Helper()
	harness.Eventually(m.t, time.Minute, func() (bool, string) {
		tree := m.run("journeys", "show", journeyID)
		for _, text := range texts {
			if !strings.Contains(tree, text) {
				return false, fmt.Sprintf("%q is not in\n%s", text, tree)
			}
		}
		return true, ""
	})
}

// leadsOf are all leads that a query finds.
func leadsOf(t *testing.T, p *harness.Process, query string) (ids []int64) {
	t.Helper()
	for cursor := ""; ; {
		var page struct {
			Items      []struct{ LeadsID int64 }
			NextCursor string
		}
		p.Do(t, http.MethodGet, "/v1/leads?limit=500&"+query+cursor, nil, &page)
		for _, item := range page.Items {
			ids = append(ids, item.LeadsID)
		}
		if page.NextCursor == "" {
			return ids
		}
		cursor = "&cursor=" + page.NextCursor
	}
}

// TestStories are three stories of marketers, each with waypost-dev killed in the middle.
func TestStories(t *testing.T) {
	t.Parallel()
	binary := buildWaypost(t)
	for name, story := range map[string]func(*testing.T, string){"abandoned carts": abandonedCarts, "win-back": winBack, "the better message": betterMessage} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			story(t, binary)
		})
	}
}

// A lead leaves two carts at once and buys one of them: the other one is reminded of, also
// though the process is killed when the carts are accepted, and again in the middle of the
// reminder.
func abandonedCarts(t *testing.T, binary string) {
	r := newSlowReceiver(t)
	r.slow.Store(true)
	m := marketer{t: t, binary: binary, dir: filepath.Join(t.TempDir(), "data"), receiver: r.Receiver}
	p := harness.StartProcess(t, m.dir, []string{"--no-demo"})
	example, err := os.ReadFile(filepath.Join("..", "..", "examples", "cart-abandoned.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	hurried := strings.NewReplacer("timeout: 1h", "timeout: 8s", "timeout: P3D", "timeout: 2s").Replace(string(example))
	journeyID := m.publish(m.file("cart.yaml", hurried))
	lead := m.id("leadsId", "leads", "create", "--name", "Ada")
	send := func(id, name, properties string) {
		m.run("events", "send", "--id", id, "--name", name, "--lead", lead, "--properties", properties)
	}
	carts := func() {
		harness.Parallel(2, func(i int) {
			send(fmt.Sprint("left-", i), "cart", fmt.Sprintf(`{"cartId":"cart-%d","item":"Tea","total":%d,"currency":"CNY"}`, i, 600+i))
		})
		send("left-2", "cart", `{"cartId":"cart-2","item":"Cup","total":9,"currency":"CNY"}`) // not worth a message
		send("order-1", "purchase", `{"cartId":"cart-0"}`)
	}
	carts()
	p.Kill9(t)
	p = harness.StartProcess(t, m.dir, []string{"--no-demo"})
	carts()     // their sender does not know whether they were accepted
	<-r.posting // the reminder
	p.Kill9(t)
	r.quicken()
	p = harness.StartProcess(t, m.dir, []string{"--no-demo"})
	m.shown(journeyID, "2 enrollments, 2 completed", "2 by an event")

	records := p.Records(t, journeyID)
	for _, d := range m.receiver.Disagreements(records) {
		t.Errorf("the ledger and the records disagree: %s", d)
	}
	var nodes []string
	for _, r := range records {
		nodes = append(nodes, r.NodeID)
		for _, post := range m.receiver.Received(r.MessageID) {
			if want := map[string]string{"remind": `"amount":"601 CNY"`, "coupon": `"cart":"cart-1"`}[r.NodeID]; !strings.Contains(post.Body, want) {
				t.Errorf("%s lacks %s: %s", r.NodeID, want, post.Body)
			}
		}
	}
	if slices.Sort(nodes); !slices.Equal(nodes, []string{"coupon", "remind"}) || m.receiver.Messages() != 2 {
		t.Errorf("%v were sent, %d messages arrived", nodes, m.receiver.Messages())
	}
}

// Every Monday who has not bought for a while is written to, but for one in ten: the purchases
// of both groups tell what it brings. The process is killed in the middle of the first Monday.
func winBack(t *testing.T, binary string) {
	const all, bought = 920, 20 // of 900, less than 30 are held out once in 10^14 runs
	const keys = "WAYPOST_ENCRYPTION_KEYS=" + scheduleKeys
	var arrived atomic.Int64
	many := make(chan struct{})
	m := marketer{t: t, binary: binary, dir: filepath.Join(t.TempDir(), "data")}
	m.receiver = harness.NewReceiver(t, func(waypost.Message, int) harness.Answer {
		if arrived.Add(1) == 30 {
			close(many)
		}
		return harness.Answer{Status: http.StatusOK}
	})
	p := harness.StartProcess(t, m.dir, []string{"--no-demo"}, keys)
	rows := []string{"name,externalId"}
	for i := range all {
		rows = append(rows, fmt.Sprintf("Lead %d,win-%d", i, i))
	}
	m.run("leads", "import", m.file("leads.csv", rows...))
	leads := leadsOf(t, p, "sort=leadsId")
	purchases := func(day string, leads []int64) {
		var lines []string
		for i, lead := range leads {
			lines = append(lines, fmt.Sprintf(`{"eventId":"%s-%d","name":"purchase","leadsId":%d,"properties":{"total":%d}}`, day, lead, lead, 10+i%3))
		}
		m.run("events", "import", m.file("orders.ndjson", lines...))
	}
	purchases("before", leads[:bought])

	segment := m.id("id", "segments", "create", "--name", "silent", "--when", `events("purchase", duration("720h")).count() == 0`)
	if count := m.id("count", "segments", "count", segment); count != fmt.Sprint(all-bought) {
		t.Fatalf("%s leads are silent, want %d", count, all-bought)
	}
	journeyID := m.publish(m.file("winback.yaml", "name: Win-back", "start: miss", "controlGroup: 0.1", "reentry: {policy: always}",
		`goal: {event: purchase, within: P7D, value: event.total}`,
		"nodes:", "  - {id: miss, type: touchpoint, webhook: email, params: {template: we-miss-you}}"))
	launchID := m.id("launchId", "journeys", "launch", journeyID, "--segment", segment, "--cron", "0 9 * * mon", "--timezone", "Asia/Shanghai")
	l := awaitRecurring(t, p, launchID, "scheduled", func(l recurring) bool { return l.Schedule.NextAt != nil })
	if at := l.Schedule.NextAt.In(time.FixedZone("UTC+8", 8*3600)); at.Weekday() != time.Monday || at.Hour() != 9 {
		t.Errorf("it begins at %s", at)
	}

	var held, written []int64
	for _, lead := range leads[bought:] {
		if waypost.HeldOut(journeyID, lead, 0.1) {
			held = append(held, lead)
		} else {
			written = append(written, lead)
		}
	}
	monday := func() {
		t.Helper()
		fire := client.ScheduleTriggerOptions{Overlap: enumspb.SCHEDULE_OVERLAP_POLICY_ALLOW_ALL}
		if err := scheduleOf(t, dialTemporal(t, p), launchID).Trigger(t.Context(), fire); err != nil {
			t.Fatal(err)
		}
	}
	monday()
	<-many
	p.Kill9(t)
	p = harness.StartProcess(t, m.dir, []string{"--no-demo"}, keys)
	got := awaitRecurring(t, p, launchID, "through its first Monday", func(l recurring) bool { return l.Completed == len(written) })
	if got.Total != all-bought || got.HeldOut != len(held) {
		t.Errorf("after the first Monday %+v, want %d held out of %d", got, len(held), all-bought)
	}
	m.shown(journeyID, "not enough data")

	// Half of those who were written to buy, and three of the others.
	buyers := append(slices.Clone(held[:3]), written[:len(written)/2]...)
	purchases("after", buyers)
	m.shown(journeyID, fmt.Sprintf("%d of %d", len(written)/2, len(written)), fmt.Sprintf("3 of %d", len(held)), "The rate is higher than that of the control group.")

	// The second Monday is for who has still not bought; the same leads are held out.
	monday()
	again := awaitRecurring(t, p, launchID, "through its second Monday", func(l recurring) bool {
		return l.Schedule.Occurrences == 2 && l.Completed == len(written)+len(written)-len(written)/2
	})
	if again.HeldOut != 2*len(held)-3 {
		t.Errorf("%d were held out in two Mondays, want %d", again.HeldOut, 2*len(held)-3)
	}
	records := p.Records(t, journeyID)
	times := map[int64]int{}
	for _, r := range records {
		times[r.LeadsID]++
	}
	for _, lead := range held {
		if times[lead] != 0 {
			t.Errorf("lead %d is held out, and got %d messages", lead, times[lead])
		}
	}
	if len(times) != len(written) || len(records) != again.Completed {
		t.Errorf("%d leads got messages, want %d; %d deliveries, want %d", len(times), len(written), len(records), again.Completed)
	}
	for _, d := range m.receiver.Disagreements(records) {
		t.Errorf("the ledger and the records disagree: %s", d)
	}
}

// Of two messages 200 leads get one, and all others the one that sells more. The process is killed
// while the others are held, and again while the first of them come.
func betterMessage(t *testing.T, binary string) {
	const all, first = 260, 200
	r := newSlowReceiver(t)
	m := marketer{t: t, binary: binary, dir: filepath.Join(t.TempDir(), "data"), receiver: r.Receiver}
	p := harness.StartProcess(t, m.dir, []string{"--no-demo"})
	journeyID := m.publish(m.file("offer.yaml", "name: Offer", "start: offer", "reentry: {policy: never}",
		`goal: {event: purchase, value: event.total}`, "nodes:",
		"  - {id: offer, type: split, arms: [{weight: 1, next: discount}, {weight: 1, next: shipping}], winner: {by: goal, leads: 200}}",
		`  - {id: discount, type: touchpoint, webhook: email, params: {offer: "10 % off"}}`,
		"  - {id: shipping, type: touchpoint, webhook: email, params: {offer: free shipping}}"))
	group := func(n int) {
		t.Helper()
		rows := []string{"name"}
		for i := range n {
			rows = append(rows, fmt.Sprintf("Lead %d", i))
		}
		m.run("leads", "import", m.file("leads.csv", rows...))
	}
	// taken are the leads by the message that they got, once n have one.
	taken := func(n int) map[string][]int64 {
		t.Helper()
		var by map[string][]int64
		harness.Eventually(t, 90*time.Second, func() (bool, string) {
			by = map[string][]int64{}
			done := 0
			for _, r := range p.Records(t, journeyID) {
				if r.Status == waypost.DeliverySucceeded {
					by[r.NodeID] = append(by[r.NodeID], r.LeadsID)
					done++
				}
			}
			return done == n, fmt.Sprintf("%d of %d have a message", done, n)
		})
		return by
	}
	type tested struct {
		Total, Enrolled, Skipped, Held int
		Status                         waypost.LaunchStatus
		Empty                          bool
		Message                        string
		Test                           struct {
			Status waypost.TestStatus
			Arm    int
		}
	}
	launched := func(id, what string, want func(tested) bool) (l tested) {
		t.Helper()
		harness.Eventually(t, 90*time.Second, func() (bool, string) {
			l = tested{}
			err := json.Unmarshal([]byte(m.run("launches", "show", id, "-o", "json")), &l)
			return err == nil && want(l), fmt.Sprintf("not %s: %+v, %v", what, l, err)
		})
		return l
	}
	group(all)
	launchID := m.id("launchId", "launches", "create", journeyID, "--all", "--test-leads", "200", "--test-after", "72h")
	launched(launchID, "holding the rest", func(l tested) bool {
		return l.Test.Status == waypost.TestWaiting && l.Held == all-first && l.Enrolled == first
	})
	arms := taken(first)
	p.Kill9(t)
	p = harness.StartProcess(t, m.dir, []string{"--no-demo"})
	if l := launched(launchID, "there", func(l tested) bool { return l.Total == all }); l.Held != all-first {
		t.Errorf("after the restart %+v", l)
	}
	var lines []string
	for arm, share := range map[string]int{"discount": 20, "shipping": 2} { // one in so many buys
		for i, lead := range arms[arm] {
			if i%share == 0 {
				lines = append(lines, fmt.Sprintf(`{"eventId":"order-%d","name":"purchase","leadsId":%d,"properties":{"total":20}}`, lead, lead))
			}
		}
	}
	r.slow.Store(true)
	m.run("events", "import", m.file("orders.ndjson", lines...))
	<-r.posting
	p.Kill9(t)
	r.quicken()
	p = harness.StartProcess(t, m.dir, []string{"--no-demo"})
	by := taken(all)
	if len(by["discount"]) != len(arms["discount"]) || len(by["shipping"]) != all-len(arms["discount"]) {
		t.Errorf("the arms took %d and %d, of the test %d and %d", len(by["discount"]), len(by["shipping"]), len(arms["discount"]), len(arms["shipping"]))
	}
	leads := slices.Concat(by["discount"], by["shipping"])
	if slices.Sort(leads); len(slices.Compact(leads)) != all {
		t.Errorf("%d leads got a message, want %d", len(slices.Compact(leads)), all)
	}
	if l := launched(launchID, "at its end", func(l tested) bool { return l.Status.Ended() }); l.Enrolled != all || l.Held != 0 || l.Test.Status != waypost.TestDecided || l.Test.Arm != 2 {
		t.Errorf("at the end %+v", l)
	}
	again := m.id("launchId", "launches", "create", journeyID, "--all")
	if l := launched(again, "at its end", func(l tested) bool { return l.Status.Ended() }); l.Skipped != all || !l.Empty || !strings.Contains(l.Message, "re-entry rule") {
		t.Errorf("launched again %+v", l)
	}
	m.shown(journeyID, "winner")
	m.run("journeys", "reverse", journeyID, "offer")
	group(60)
	m.run("launches", "create", journeyID, "--all")
	if back := taken(all + 60); len(back["discount"]) == len(by["discount"]) || len(back["shipping"]) == len(by["shipping"]) {
		t.Errorf("after it was taken back the arms took %d and %d leads", len(back["discount"]), len(back["shipping"]))
	}
	for _, d := range m.receiver.Disagreements(p.Records(t, journeyID)) {
		t.Errorf("the ledger and the records disagree: %s", d)
	}
}
