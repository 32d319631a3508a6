package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// self is this process, with the receiver and the clients in it.
const self = "bench"

// measured is a process whose cost is counted, or a family of them.
type measured struct {
	name string
	pid  int
	// family: the process's children count too, those that have ended included.
	family bool
}

// cost is what a process has used up to a moment.
type cost struct {
	cpu  time.Duration
	peak int64 // bytes of resident memory at most, 0 if it is not known
}

// tick is the unit of the times in /proc/PID/stat: USER_HZ, which is 100 on
// every platform that Go runs on.
const tick = 10 * time.Millisecond

// stat is what we use of /proc/PID/stat.
type stat struct {
	parent        int
	own, children time.Duration
}

func readStat(pid int) (stat, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return stat{}, err
	}
	// The name in parentheses may hold anything; what follows its end does not.
	i := bytes.LastIndexByte(b, ')')
	if i < 0 {
		return stat{}, fmt.Errorf("/proc/%d/stat has no name", pid)
	}
	fields := strings.Fields(string(b[i+1:])) // from the third field on
	if len(fields) < 15 {
		return stat{}, fmt.Errorf("/proc/%d/stat has %d fields", pid, len(fields))
	}
	var n [5]int64
	for j, at := range []int{1, 11, 12, 13, 14} { // ppid utime stime cutime cstime
		if n[j], err = strconv.ParseInt(fields[at], 10, 64); err != nil {
			return stat{}, fmt.Errorf("/proc/%d/stat: %w", pid, err)
		}
	}
	return stat{int(n[0]), time.Duration(n[1]+n[2]) * tick, time.Duration(n[3]+n[4]) * tick}, nil
}

// hostTimes are the times of all CPUs in /proc/stat, in ticks; zero where it does not say.
type hostTimes struct{ all, stolen int64 }

func readHostTimes() (t hostTimes) {
	b, _ := os.ReadFile("/proc/stat")
	line, _, _ := strings.Cut(string(b), "\n")
	fields := strings.Fields(line) // cpu user nice system idle iowait irq softirq steal guest guest_nice
	for i := 1; i < min(len(fields), 9); i++ {
		n, _ := strconv.ParseInt(fields[i], 10, 64)
		t.all += n
		if i == 8 {
			t.stolen = n
		}
	}
	return t
}

// stolenSince is the share of the CPUs' time since then that the machine's host gave to
// others; false if it is not known.
func (t hostTimes) stolenSince(then hostTimes) (share float64, ok bool) {
	if t.all == then.all {
		return 0, false
	}
	return float64(t.stolen-then.stolen) / float64(t.all-then.all), true
}

// runsHere tells whether a server's process is on this machine: the program of that
// number may be another one.
func runsHere(pid int, program string) bool {
	name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	return err == nil && strings.HasPrefix(string(name), program)
}

// cost reads what the process has used. ok is false where /proc does not say.
func (m measured) cost() (c cost, ok bool) {
	st, err := readStat(m.pid)
	if err != nil {
		return cost{}, false
	}
	c.cpu = st.own
	if !m.family {
		c.peak = peakMemory(m.pid)
		return c, true
	}
	c.cpu += st.children
	for _, child := range m.offspring() {
		c.cpu += child.own
	}
	return c, true
}

// offspring are the children that a family's process has now, by their pids.
func (m measured) offspring() map[int]stat {
	children := map[int]stat{}
	found, _ := filepath.Glob("/proc/[0-9]*") // no bad pattern
	for _, path := range found {
		pid, err := strconv.Atoi(filepath.Base(path))
		if err != nil {
			continue
		}
		if child, err := readStat(pid); err == nil && child.parent == m.pid {
			children[pid] = child
		}
	}
	return children
}

// forgetPeak lets the peak begin anew. Where that is not permitted, the peak is
// that since the process began.
func (m measured) forgetPeak() {
	_ = os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", m.pid), []byte("5"), 0)
}

// peakMemory is the most resident memory that a process has had.
func peakMemory(pid int) int64 { return memoryOf(pid, "VmHWM:") }

// resident is the memory of all processes now.
func resident(all []measured) (sum int64) {
	for _, m := range all {
		sum += m.resident()
	}
	return sum
}

// resident is the process's memory now. What a family's processes share counts once: as
// much as the one that has touched most of it.
func (m measured) resident() int64 {
	if !m.family {
		return memoryOf(m.pid, "VmRSS:")
	}
	own, shared := memoryOf(m.pid, "RssAnon:"), memoryOf(m.pid, "RssShmem:")
	for pid := range m.offspring() {
		own += memoryOf(pid, "RssAnon:")
		shared = max(shared, memoryOf(pid, "RssShmem:"))
	}
	return own + shared
}

// sampleEvery is how often the memory of families is looked at: they have no peak of
// their own. A look at each process of PostgreSQL takes some milliseconds of the CPU time
// that is measured.
const sampleEvery = 2 * time.Second

// watchFamilies looks at the memory of the families until stop, which returns the most
// that each has had.
func watchFamilies(all []measured) (stop func() map[string]int64) {
	enough, done := make(chan struct{}), make(chan struct{})
	peaks := map[string]int64{}
	go func() {
		defer close(done)
		tick := time.NewTicker(sampleEvery)
		defer tick.Stop()
		for more := true; more; {
			select {
			case <-tick.C:
			case <-enough:
				more = false // one more look: a short case has had none
			}
			for _, m := range all {
				if m.family {
					peaks[m.name] = max(peaks[m.name], m.resident())
				}
			}
		}
	}()
	return func() map[string]int64 {
		close(enough)
		<-done
		return peaks
	}
}

// memoryOf reads a value of /proc/PID/status, in bytes; 0 if it is not there.
func memoryOf(pid int, name string) int64 {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(b)) {
		if value, ok := strings.CutPrefix(line, name); ok {
			kib, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
			return kib << 10
		}
	}
	return 0
}

// costs is a look at all processes.
type costs map[string]cost

func look(all []measured) costs {
	out := costs{}
	for _, m := range all {
		if c, ok := m.cost(); ok {
			sum := out[m.name]
			out[m.name] = cost{sum.cpu + c.cpu, max(sum.peak, c.peak)}
		}
	}
	return out
}

// begin looks at the processes before a case.
func begin(all []measured) costs {
	for _, m := range all {
		if !m.family {
			m.forgetPeak()
		}
	}
	return look(all)
}
