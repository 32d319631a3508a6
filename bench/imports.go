package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// importRows is how many rows an import has at most: its body may have 64 MiB.
const importRows = 100_000

// importLeads makes n leads of a group by imports.
func (b *bench) importLeads(ctx context.Context, group, n int) error {
	if n == 0 {
		return nil
	}
	b.tell("import %d leads", n)
	began := time.Now()
	for from := 0; from < n; from += importRows {
		if err := b.importRows(ctx, csvRows(group, from, min(importRows, n-from))); err != nil {
			return err
		}
	}
	b.tell("imported %.0f leads per second", float64(n)/time.Since(began).Seconds())
	return nil
}

// csvRows are leads of a group as CSV.
func csvRows(group, from, n int) []byte {
	var b bytes.Buffer
	b.WriteString("name,leadsGroup,gender,region,mobilePhone,email,externalId,customFields.tier,customFields.points\n")
	for i := from; i < from+n; i++ {
		fmt.Fprintf(&b, "Lin Xiaomei %d,%d,%d,%d,+86 13%d %08d,lead.%d.%d@example.com,crm-%d-%d,gold,%d\n",
			i, group, i%3, 310000+i%100, group, i, group, i, group, i, i)
	}
	return b.Bytes()
}

// importRows sends rows and returns when all of them are leads.
func (b *bench) importRows(ctx context.Context, rows []byte) error {
	want := bytes.Count(rows, []byte("\n")) - 1
	res, err := b.client.Send(ctx, http.MethodPost, "/v1/leads/imports", http.Header{"Content-Type": {"text/csv"}}, rows)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	var im struct {
		ID, Status     string
		Created, Total int
	}
	if err := json.NewDecoder(res.Body).Decode(&im); err != nil || res.StatusCode != http.StatusAccepted {
		return fmt.Errorf("the import is not accepted: HTTP %d, %w", res.StatusCode, err)
	}
	return until(ctx, recordPoll, caseTime, "the import has not ended", func() (bool, error) {
		if err := b.client.Do(ctx, http.MethodGet, "/v1/leads/imports/"+im.ID, nil, &im); err != nil {
			return false, err
		}
		switch {
		case im.Status == "pending" || im.Status == "running":
			return false, nil
		case im.Status != "succeeded" || im.Created != want:
			return false, fmt.Errorf("the import has %s, %d of %d rows are leads", im.Status, im.Created, want)
		}
		return true, nil
	})
}

// importAll imports new leads: from the request to the last lead.
func (b *bench) importAll(ctx context.Context) (outcome, error) {
	b.runs++
	n := b.o.rows
	// Numbers that no other case has, in 20 runs of up to ten million leads.
	var rows [][]byte
	for from := 0; from < n; from += importRows {
		part := csvRows(groupNew, from, min(importRows, n-from))
		part = bytes.ReplaceAll(part, []byte(",crm-"), []byte(",run"+strconv.Itoa(b.runs)+"-"))
		rows = append(rows, bytes.ReplaceAll(part, fmt.Appendf(nil, ",+86 13%d 0", groupNew), fmt.Appendf(nil, ",+86 13%d %d", 7+b.runs%2*2, b.runs/2%10)))
	}
	began := time.Now()
	for _, part := range rows {
		if err := b.importRows(ctx, part); err != nil {
			return outcome{}, err
		}
	}
	took := time.Since(began)
	return outcome{deliveries: n, metrics: []metric{{"rows/s", float64(n) / took.Seconds()}}}, nil
}

// export reads as many leads as NDJSON.
func (b *bench) export(ctx context.Context) (outcome, error) {
	began := time.Now()
	res, err := b.client.Send(ctx, http.MethodGet, "/v1/leads/export?format=ndjson&leadsGroup="+strconv.Itoa(groupRows), nil, nil)
	if err != nil {
		return outcome{}, err
	}
	defer res.Body.Close()
	rows, bytes := 0, 0
	lines := bufio.NewScanner(res.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		bytes += len(lines.Bytes()) + 1
		rows++
	}
	took := time.Since(began)
	if err := lines.Err(); err != nil {
		return outcome{}, fmt.Errorf("read the export: %w", err)
	}
	if rows -= 1; rows != b.o.rows { // the last line says that it is complete
		return outcome{}, fmt.Errorf("%d leads were exported, want %d (HTTP %d)", rows, b.o.rows, res.StatusCode)
	}
	return outcome{deliveries: rows, metrics: []metric{{"rows/s", float64(rows) / took.Seconds()}, {"MB/s", float64(bytes) / 1e6 / took.Seconds()}}}, nil
}
