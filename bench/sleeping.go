package main

import (
	"context"
	"fmt"
	"net/http"
	"time"
)

// asleep is a journey whose delay is to be set first.
const asleep = `{"name":"Asleep","start":"wait","nodes":[
	{"id":"wait","type":"delay","for":%q,"next":"hello"},
	{"id":"hello","type":"touchpoint","webhook":%%q}]}`

const (
	// Nobody comes to the end of this during a measurement.
	longSleep = "720h"
	// The databases are at rest once their size stays the same this long, or as long as
	// others sleep, where that is less.
	restTime = 5 * time.Second
)

// sleepers makes the leads and puts them to sleep. The databases never get smaller, so
// it is done once.
func (b *bench) sleepers(ctx context.Context) error {
	if err := b.importLeads(ctx, groupRest, b.o.sleeping); err != nil {
		return err
	}
	b.tell("%s", caseSleeping)
	return b.one(ctx, caseSleeping, b.sleep)
}

// sleep puts enrollments into a delay, looks how much databases and processes grow,
// and then lets as many others wake up, which are due within the time that enrolling
// them takes.
func (b *bench) sleep(ctx context.Context) (outcome, error) {
	n := b.o.sleeping
	t, err := b.prepare(ctx, fmt.Sprintf(asleep, longSleep), script{})
	if err != nil {
		return outcome{}, err
	}
	ours, temporal, err := b.atRest(ctx)
	if err != nil {
		return outcome{}, err
	}
	memory := resident(b.stack.watched)
	began := time.Now()
	if _, err := b.enrollEverybody(ctx, t); err != nil {
		return outcome{}, err
	}
	asleepAfter := time.Since(began)
	oursAfter, temporalAfter, err := b.atRest(ctx)
	if err != nil {
		return outcome{}, err
	}
	memoryAfter := resident(b.stack.watched)
	each := func(before, after int64) float64 { return float64(after-before) / float64(n) }
	metrics := []metric{
		{"enrolled/s", float64(n) / asleepAfter.Seconds()},
		{"Waypost's database, B each", each(ours, oursAfter)},
		{"Temporal's database, B each", each(temporal, temporalAfter)},
		{"memory of all processes, B each", each(memory, memoryAfter)},
	}

	b.tell("%d others sleep for %s", n, b.o.sleep)
	if t, err = b.prepare(ctx, fmt.Sprintf(asleep, b.o.sleep), script{}); err != nil {
		return outcome{}, err
	}
	began = time.Now()
	l, err := b.enrollEverybody(ctx, t)
	if err != nil {
		return outcome{}, err
	}
	lastDue := time.Now().Add(b.o.sleep)
	if err := b.awaitLaunch(ctx, l, t, n); err != nil {
		return outcome{}, err
	}
	ended := time.Now()
	metrics = append(metrics,
		metric{"from the first one due to the last one recorded, s", ended.Sub(began.Add(b.o.sleep)).Seconds()},
		metric{"after the last one was due, s", ended.Sub(lastDue).Seconds()},
		metric{"woken and delivered/s", float64(n) / ended.Sub(began.Add(b.o.sleep)).Seconds()},
	)
	return outcome{deliveries: n, metrics: metrics, check: func() error { return b.check(ctx, t, n) }}, nil
}

// enrollEverybody launches to the sleepers and returns when all are enrolled.
func (b *bench) enrollEverybody(ctx context.Context, t trial) (launched, error) {
	l, err := b.startLaunch(ctx, t.journeyID, groupRest)
	if err != nil {
		return l, err
	}
	return l, until(ctx, launchPoll, caseTime, "not everybody is enrolled", func() (bool, error) {
		var now struct{ Enrolled int }
		err := b.client.Do(ctx, http.MethodGet, "/v1/launches/"+l.LaunchID, nil, &now)
		return now.Enrolled == b.o.sleeping, err
	})
}

// atRest is the size of the databases once nothing is written any more.
func (b *bench) atRest(ctx context.Context) (ours, temporal int64, err error) {
	since := time.Now()
	err = until(ctx, launchPoll, 10*time.Minute, "the databases do not come to rest", func() (bool, error) {
		nowOurs, nowTemporal, err := b.stack.bytes(ctx)
		if nowOurs != ours || nowTemporal != temporal {
			ours, temporal, since = nowOurs, nowTemporal, time.Now()
		}
		return time.Since(since) >= min(restTime, b.o.sleep), err
	})
	return ours, temporal, err
}
