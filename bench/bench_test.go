package main

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
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
	l.each(func(_ string, a arrivals) { sent[a.leadsID] = a.first.Add(-20 * time.Millisecond) })
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
	for _, args := range []string{"--suite nothing", "--cases nothing", "--cases launch,", "--roles many", "--repeat 0", "--rate -1", "--refuse 91", "launch", "--nothing"} {
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
