package main

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"
)

// A gateway that is away while something is watched is asked again, and told of once.
func TestWatchAway(t *testing.T) {
	t.Parallel()
	const busy = `{"code":"ServiceUnavailable","message":"away","target":"","detail":[]}`
	for _, tt := range []struct{ path, args, running, ended string }{
		{"/v1/launches/x", "launches show x --watch", `"launchId":"x","status":"running","total":2`, `"launchId":"x","status":"completed"`},
		{"/v1/leads/imports/x", "leads imports show x --watch", `"id":"x","status":"running","total":2`, `"id":"x","status":"succeeded"`},
		{"/v1/articles/reindex", "articles reindex", `"status":"running","total":2`, `"status":"succeeded"`},
		{"/v1/redeliveries/x", "deliveries redeliveries show x --watch", `"id":"x","status":"running","total":2`, `"id":"x","status":"completed"`},
		{"/v1/enrollments/x", "enrollments show x --watch", `"enrollmentId":"x","status":"running"`, `"enrollmentId":"x","status":"completed"`},
	} {
		t.Run(tt.args, func(t *testing.T) {
			t.Parallel()
			replies := []reply{
				{status: 200, body: "{" + tt.running + "}"}, {}, {status: 503, body: busy}, {status: 502, body: "<html>"}, {status: 429, body: busy},
				{status: 200, body: "{" + tt.running + "}"}, {status: 504}, {status: 200, body: "{" + tt.ended + "}"},
			}
			looks := 0
			p := newPeer(t, map[string]func(request) reply{
				"POST " + tt.path: always(202, `{"status":"pending"}`),
				"GET " + tt.path: func(request) reply {
					if looks++; replies[looks-1].status == 0 {
						panic(http.ErrAbortHandler)
					}
					return replies[looks-1]
				},
			})
			c, stdout, stderr := watcher(p, false, outputTable)
			root := c.root()
			root.SetArgs(strings.Fields(tt.args))
			if err := root.ExecuteContext(t.Context()); err != nil || looks != len(replies) {
				t.Errorf("%v after %d looks", err, looks)
			}
			if got := strings.Count(stderr.String(), "It is asked again for a while.\n"); got != 2 {
				t.Errorf("two times away are told %d times:\n%s", got, stderr)
			}
			if !strings.Contains(stdout.String()+stderr.String(), tt.ended[strings.LastIndex(tt.ended, ":")+2:len(tt.ended)-1]) {
				t.Errorf("stdout %q, stderr %q", stdout, stderr)
			}
		})
	}
}

func TestWatchEnds(t *testing.T) {
	t.Parallel()
	const again = "the import goes on: `waypost leads imports show imp_1 --watch` watches it again, `waypost leads imports cancel imp_1` cancels it"
	watch := func(t *testing.T, ctx context.Context, poll time.Duration, route func(request) reply) (int, string) {
		t.Helper()
		p := newPeer(t, map[string]func(request) reply{"GET /v1/leads/imports/imp_1": route})
		c, _, _ := watcher(p, true, outputTable)
		c.poll = poll
		cl, err := c.client()
		if err != nil {
			t.Fatal(err)
		}
		err = c.watchImport(ctx, cl, "imp_1", "")
		if err == nil {
			t.Fatal("no error")
		}
		return len(p.requests()), describe(err)
	}
	t.Run("away for good", func(t *testing.T) {
		t.Parallel()
		looks, says := watch(t, t.Context(), time.Nanosecond, always(503, `{"code":"ServiceUnavailable","message":"away","target":"","detail":[]}`))
		if says != "ServiceUnavailable: away; "+again || looks != maxMissed+1 {
			t.Errorf("%d looks, %q", looks, says)
		}
	})
	t.Run("interrupted while it is away", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancel(t.Context())
		looks, says := watch(t, ctx, time.Hour, func(request) reply {
			time.AfterFunc(10*time.Millisecond, cancel)
			return reply{status: 503}
		})
		if says != "interrupted; "+again || looks != 1 {
			t.Errorf("%d looks, %q", looks, says)
		}
	})
	t.Run("refused", func(t *testing.T) {
		t.Parallel()
		looks, says := watch(t, t.Context(), time.Nanosecond, always(404, `{"code":"NotFound","message":"no import","target":"id","detail":[]}`))
		if says != "NotFound: no import" || looks != 1 {
			t.Errorf("%d looks, %q", looks, says)
		}
	})
	t.Run("nothing of the kind", func(t *testing.T) {
		t.Parallel()
		if _, says := watch(t, t.Context(), time.Nanosecond, always(200, `{"id":"imp_1"}`)); says != `the gateway's answer is no import: {"id":"imp_1"}` {
			t.Error(says)
		}
	})
}
