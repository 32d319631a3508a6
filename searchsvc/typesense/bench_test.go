package typesense

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"waypost"
	"waypost/searchsvc"
	"waypost/searchsvc/searchtest"
)

// BenchmarkOverhead measures what the service and the adapter add to the engine's own
// answer time: a whole search, from the raw query to the marked hits, beside the same
// HTTP call without anything around it. The server gives an answer of
// the form of the recorded ones, with articles of 4 KB; the two calls take turns.
func BenchmarkOverhead(b *testing.B) {
	for _, tt := range []struct {
		name    string
		body    string
		clients int
	}{
		{"8 hits of 4 KB", page(b, 8), 1},
		{"8 hits of 4 KB", page(b, 8), 8},
		{"10 hits of 4 KB", page(b, 10), 1},
		{"10 hits of 4 KB", page(b, 10), 8},
		{"50 hits of 4 KB", page(b, searchsvc.MaxPerPage), 1},
	} {
		b.Run(fmt.Sprintf("%s/%d clients", tt.name, tt.clients), func(b *testing.B) { measureOverhead(b, tt.body, tt.clients) })
	}
}

// recordedAnswer is a recorded search for two words of Chinese.
const recordedAnswer = "b09_two_words"

// benchKeyword is its keyword.
func benchKeyword(b *testing.B) string {
	b.Helper()
	for _, c := range searchtest.Cases(b) {
		if c.Recording == recordedAnswer {
			return c.Keyword
		}
	}
	b.Fatal("the recording has no keyword")
	return ""
}

// page is an answer with articles of about 4 KB, which hold the keyword near their end.
func page(b *testing.B, hits int) string {
	b.Helper()
	keyword := benchKeyword(b)
	type hit struct {
		Document   document `json:"document"`
		Highlights []any    `json:"highlights"`
	}
	answer := map[string]any{"found": hits, "search_cutoff": false}
	var all []hit
	for i := range hits {
		d := tenantB(strconv.Itoa(i), "公司新闻 company news "+strconv.Itoa(i), strings.Repeat("团队每周召开会议讨论项目进度和风险。We meet once a week.\n", 50)+keyword+"。")
		d.TenantID = "tenant-a"
		d.Channels = []waypost.Channel{{ID: "root", Name: "Home"}, {ID: "news", Slug: "news", Name: "News"}}
		shown := newDocument(d)
		shown.TenantKey, shown.Name, shown.Content, shown.Beginnings, shown.Characters = "", "", "", "", "" // they are excluded
		all = append(all, hit{shown, []any{map[string]any{"field": "content", "matched_tokens": []string{"搜索"}}}})
	}
	answer["hits"] = all
	body, err := json.Marshal(answer)
	if err != nil {
		b.Fatal(err)
	}
	return string(body)
}

type oneOwner struct{}

func (oneOwner) TenantOrg(context.Context, string) (string, error) { return "acme", nil }

func measureOverhead(b *testing.B, body string, clients int) {
	var asked atomic.Pointer[string] // what the adapter asks for
	status := record(b, "i08_status_ready").Response.Body
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		if r.URL.Path == "/status" {
			_, _ = io.WriteString(w, status)
			return
		}
		asked.CompareAndSwap(nil, new(r.URL.String()))
		_, _ = io.WriteString(w, body)
	}))
	b.Cleanup(server.Close)
	service := searchsvc.New(open(b, Options{URLs: []string{server.URL}}), oneOwner{})
	token := waypost.SearchToken{
		Scope: waypost.Scope{Org: "acme", Stage: waypost.StageRelease}, TenantIDs: []string{"tenant-a"},
		From: []waypost.Origin{waypost.FromFrontend}, MaxAccessLevel: 5,
	}
	raw := url.Values{"tenant_id": {"tenant-a"}, "from": {"frontend"}, "keywords": {benchKeyword(b)}, "_per_page": {"50"}}.Encode()
	search := func() error {
		result, err := service.Search(b.Context(), token, raw)
		if err == nil && (len(result.Hits) == 0 || !strings.Contains(result.Hits[0].SearchHighlight+result.Hits[0].NameHighlight, "<b ")) {
			err = fmt.Errorf("%d hits, or no marks", len(result.Hits))
		}
		return err
	}
	if err := search(); err != nil {
		b.Fatal(err)
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = 64
	b.Cleanup(transport.CloseIdleConnections)
	client := &http.Client{Transport: transport}
	bare := func() error {
		r, err := http.NewRequestWithContext(b.Context(), http.MethodGet, server.URL+*asked.Load(), nil)
		if err != nil {
			return err
		}
		answer, err := client.Do(r)
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		_, err = io.Copy(io.Discard, answer.Body)
		return err
	}
	var mu sync.Mutex
	var times [2][]time.Duration
	var group sync.WaitGroup
	b.ResetTimer()
	for range clients {
		group.Go(func() {
			for range b.N/clients + 1 {
				for i, call := range []func() error{bare, search} {
					began := time.Now()
					err := call()
					took := time.Since(began)
					mu.Lock()
					times[i] = append(times[i], took)
					mu.Unlock()
					if err != nil {
						b.Error(err)
						return
					}
				}
			}
		})
	}
	group.Wait()
	quantile := func(i, percent int) float64 {
		return float64(times[i][(len(times[i])-1)*percent/100].Microseconds()) / 1000
	}
	for i := range times {
		slices.Sort(times[i])
	}
	for _, percent := range []int{50, 99} {
		http, all := quantile(0, percent), quantile(1, percent)
		b.ReportMetric(http, fmt.Sprintf("http-p%d-ms", percent))
		b.ReportMetric(all, fmt.Sprintf("search-p%d-ms", percent))
		b.ReportMetric(all-http, fmt.Sprintf("added-p%d-ms", percent))
	}
	b.ReportMetric(0, "ns/op") // of both calls: it says nothing
}
