package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"time"
)

const (
	searchTenant  = "bench-site"
	articlePart   = 2_000 // of one request: its body may have 64 MiB
	articleWords  = 200
	searchClients = 8
)

// Words of articles, and what is searched for; the last keyword is in none.
var (
	words = []string{
		"报销", "流程", "员工", "财务", "审批", "系统", "合同", "客户", "季度", "会议", "travel", "expenses", "invoice", "quarterly", "review",
		"customer", "contract", "deadline", "holiday", "insurance", "pension", "meeting", "laptop", "password", "kitchen", "parking",
	}
	keywords = []string{"报销", "流程 财务", "travel expenses", "invoice", "holi", "季度会议", "password kitchen parking", "nowhere"}
)

// article is the i-th article of a run, the same at each run of the bench.
func article(run, i int) map[string]any {
	r := rand.New(rand.NewPCG(uint64(run), uint64(i)))
	var text bytes.Buffer
	for range articleWords {
		text.WriteString(words[min(r.IntN(len(words)), r.IntN(len(words)))] + " ")
	}
	return map[string]any{
		"id": fmt.Sprintf("a-%d-%d", run, i), "tenant_id": searchTenant, "name": words[i%len(words)] + " " + words[i/7%len(words)] + " " + lot(run),
		"identifier": fmt.Sprintf("a-%d", i), "content": text.String(),
		"channels": []map[string]any{{"id": "root", "slug": "", "url": "bench.example.com", "name": "Bench", "access_level": 0}},
	}
}

// lot is a word that all articles of a run have in their titles.
func lot(run int) string { return fmt.Sprintf("lot%d", run) }

// index writes articles: from the first request until all of them are found.
func (b *bench) index(ctx context.Context) (outcome, error) {
	b.runs++
	run, n := b.runs, b.o.articles
	var parts [][]byte
	for from := 0; from < n; from += articlePart {
		var part bytes.Buffer
		enc := json.NewEncoder(&part)
		for i := from; i < min(n, from+articlePart); i++ {
			if err := enc.Encode(article(run, i)); err != nil {
				return outcome{}, err
			}
		}
		parts = append(parts, part.Bytes())
	}
	reader, err := b.reader(ctx)
	if err != nil {
		return outcome{}, err
	}
	began := time.Now()
	for _, part := range parts {
		res, err := b.client.Send(ctx, http.MethodPost, "/v1/articles/import", http.Header{"Content-Type": {"application/x-ndjson"}}, part)
		if err != nil {
			return outcome{}, err
		}
		if err := finish(res); err != nil {
			return outcome{}, err
		}
	}
	stored := time.Since(began)
	err = until(ctx, launchPoll, caseTime, "not all articles are found", func() (bool, error) {
		found, err := reader.found(ctx, lot(run))
		return found == n, err
	})
	took := time.Since(began)
	return outcome{deliveries: n, metrics: []metric{{"stored/s", float64(n) / stored.Seconds()}, {"found/s", float64(n) / took.Seconds()}}}, err
}

// search looks for keywords in turns, with as many clients as a busy site has.
func (b *bench) search(ctx context.Context) (outcome, error) {
	reader, err := b.reader(ctx)
	if err != nil {
		return outcome{}, err
	}
	if found, err := reader.found(ctx, keywords[0]); err != nil || found == 0 {
		return outcome{}, fmt.Errorf("%d articles are found: run the case %s first, %w", found, caseIndex, err)
	}
	return b.requests(ctx, searchClients, func(ctx context.Context, i int) error {
		return reader.send(ctx, http.MethodGet, searchTarget(keywords[i%len(keywords)]), nil)
	})
}

func searchTarget(keyword string) string {
	return "/api/v1/articles/search?" + url.Values{"tenant_id": {searchTenant}, "keywords": {keyword}, "from": {"frontend"}}.Encode()
}

// found counts the articles that a search finds.
func (c *caller) found(ctx context.Context, keyword string) (int, error) {
	var answer struct {
		Message struct {
			Meta struct {
				TotalCount int `json:"total_count"`
			}
		}
	}
	err := c.Do(ctx, http.MethodGet, searchTarget(keyword), nil, &answer)
	return answer.Message.Meta.TotalCount, err
}

// reader is a caller with a search token.
func (b *bench) reader(ctx context.Context) (*caller, error) {
	var made struct {
		Token string `json:"access_token"`
	}
	err := b.client.Do(ctx, http.MethodPost, "/v1/tokens", map[string]any{"tenantIds": []string{searchTenant}, "from": []string{"frontend"}}, &made)
	return &caller{b.client.WithBearer(made.Token)}, err
}
