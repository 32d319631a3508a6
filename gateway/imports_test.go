package gateway_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"waypost"
)

// steps processes an import to its end, as its workflow does.
func (f *fixture) steps(id string) waypost.Import {
	f.t.Helper()
	for {
		im, err := f.store.ImportStep(f.t.Context(), id)
		if err != nil {
			f.t.Fatal(err)
		}
		if im.Status.Ended() {
			return im
		}
	}
}

// importInto imports into a stage, and processes it all.
func (f *fixture) importInto(stage, mode, media, body string) waypost.Import {
	f.t.Helper()
	a := f.do(call{method: "POST", target: "/v1/leads/imports?mode=" + mode, body: body, headers: map[string]string{"Content-Type": media, "X-Cloud-Stage": stage}}).expect(f.t, 202)
	return f.steps(a.str(f.t, "id"))
}

func (f *fixture) imported(mode, media, body string) waypost.Import {
	f.t.Helper()
	return f.importInto("release", mode, media, body)
}

// errorsOf are the failed rows of an import, as "LINE CODE TARGET DETAILS…".
func (f *fixture) errorsOf(id string) (all []string) {
	f.t.Helper()
	a := f.get("/v1/leads/imports/"+id+"/errors").expect(f.t, 200)
	if got := a.header.Get("Content-Type"); got != "application/x-ndjson" {
		f.t.Errorf("Content-Type %q", got)
	}
	for line := range strings.Lines(a.raw) {
		var e struct {
			Line                  int
			Code, Message, Target string
			Detail                []waypost.Detail
		}
		dec := json.NewDecoder(strings.NewReader(line))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&e); err != nil || e.Message == "" || e.Detail == nil {
			f.t.Fatalf("%v: %s", err, line)
		}
		text := fmt.Sprintf("%d %s %s", e.Line, e.Code, e.Target)
		for _, d := range e.Detail {
			text += fmt.Sprintf(", %s %s", d.Code, d.Target)
		}
		all = append(all, text)
	}
	return all
}

func TestImportLeads(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	first := f.newLead("Ada")
	accepted := f.do(call{
		method: "POST", target: "/v1/leads/imports", headers: map[string]string{"Content-Type": "text/csv; charset=utf-8"},
		body: "\uFEFFname,gender,mobilePhone\r\nEve,1,13800000000\r\n\"B\r\nob\",x,\r\n,2,12\r\nDan\r\nFay,,138 0000 0000\r\nGil,,13700000000;13700000001\r\n",
	}).expect(t, 202)
	id := accepted.str(t, "id")
	want := `{"id":"` + id + `","status":"pending","mode":"create","dryRun":false,"total":6,"processed":0,"created":0,"updated":0,"failed":0,"message":null,` +
		`"createdAt":"2026-01-31T12:00:00.000Z","startedAt":null,"endedAt":null,"temporalUrl":"http://ui/` + id + `"}`
	if accepted.raw != want || accepted.header.Get("Location") != "/v1/leads/imports/"+id || !waypost.IsID(waypost.PrefixImport, id) {
		t.Errorf("got  %s\nwant %s\nLocation %q", accepted.raw, want, accepted.header.Get("Location"))
	}
	if f.wakes.n.Load() != 1 {
		t.Errorf("the pump was woken %d times", f.wakes.n.Load())
	}
	if got := f.get("/v1/leads/imports/"+id).expect(t, 200); got.raw != want {
		t.Errorf("GET %s", got.raw)
	}
	if got := f.errorsOf(id); len(got) != 0 {
		t.Errorf("errors before its rows are processed: %q", got)
	}
	f.clock.advance(time.Second)
	f.steps(id)
	ended := f.get("/v1/leads/imports/"+id).expect(t, 200)
	want = strings.NewReplacer(`"pending"`, `"succeeded"`, `"processed":0,"created":0`, `"processed":6,"created":2`, `"failed":0`, `"failed":4`, `edAt":null`, `edAt":"2026-01-31T12:00:01.000Z"`).Replace(want)
	if ended.raw != want || ended.header.Get("ETag") == "" {
		t.Errorf("got  %s\nwant %s", ended.raw, want)
	}
	rows := strings.Join(f.errorsOf(id), "\n")
	if rows != strings.Join([]string{
		"3 BadRequest businessParam, InvalidType gender, InvalidFormat name",
		"5 BadRequest businessParam, NullValue name, InvalidFormat mobilePhone[0]",
		"6 BadRequest , InvalidFormat ",
		"7 Conflict mobilePhone, Duplicate mobilePhone[0]",
	}, "\n") {
		t.Errorf("failed rows:\n%s", rows)
	}
	f.send("POST", "/v1/leads/imports/"+id+"/cancel", "").fault(t, 409, "Conflict")

	// The other forms and modes.
	if im := f.imported("update", "application/x-ndjson", fmt.Sprintf("{\"leadsId\":%d,\"qq\":\"1\"}\n\n{\"leadsId\":999}\n{\"qq\":\"1\"}\n{\n{\"end\":true,\"count\":9}", first)); im.Total != 4 || im.Updated != 1 || im.Failed != 3 {
		t.Errorf("%+v", im)
	} else if rows := f.errorsOf(im.ID); len(rows) != 3 || !strings.HasPrefix(rows[0], "3 NotFound leadsId") || !strings.HasPrefix(rows[1], "4 BadRequest") || rows[2] != "5 BadRequest , InvalidFormat " {
		t.Errorf("failed rows: %q", rows)
	}
	if lead := f.get(fmt.Sprintf("/v1/leads/%d", first)); lead.json["qq"] != "1" || lead.json["name"] != "Ada" {
		t.Errorf("updated: %s", lead.raw)
	}
	if im := f.imported("upsert", "application/json", fmt.Sprintf(`{"leads":[{"leadsId":%d,"remark":"r"},{"name":"New","externalId":"n"},{"businessParam":{"externalId":"n","qq":"2"}}]}`, first)); im.Created != 1 || im.Updated != 2 || im.Failed != 0 {
		t.Errorf("%+v, %q", im, f.errorsOf(im.ID))
	}
	before := f.get("/v1/leads").raw
	dry := f.do(call{method: "POST", target: "/v1/leads/imports?dryRun=true&mode=create", body: `{"leads":[{"name":"a"},{"name":"b","externalId":"n"}]}`}).expect(t, 202)
	if im := f.steps(dry.str(t, "id")); im.Created != 1 || im.Failed != 1 || dry.json["dryRun"] != true || f.get("/v1/leads").raw != before {
		t.Errorf("dry run: %+v", im)
	}

	// One without rows has nothing to wait for.
	for media, body := range map[string]string{"text/csv": "name\n", "application/json": `{"leads":[]}`, "application/x-ndjson": "\n"} {
		a := f.do(call{method: "POST", target: "/v1/leads/imports", body: body, headers: map[string]string{"Content-Type": media}}).expect(t, 202)
		if a.json["status"] != "succeeded" || a.json["total"] != 0.0 {
			t.Errorf("%s: %s", media, a.raw)
		}
	}
}

func TestCancelImport(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id := f.send("POST", "/v1/leads/imports", `{"leads":[{"name":"a"}]}`).expect(t, 202).str(t, "id")
	for range 2 {
		if a := f.send("POST", "/v1/leads/imports/"+id+"/cancel", "").expect(t, 200); a.json["status"] != "canceled" || a.json["endedAt"] == nil {
			t.Errorf("%s", a.raw)
		}
	}
	if im := f.steps(id); im.Created != 0 {
		t.Errorf("a canceled import goes on: %+v", im)
	}
	// The same key once more has the first answer, and no second effect.
	send := func() answer {
		return f.do(call{method: "POST", target: "/v1/leads/imports", body: "name\nb\n", headers: map[string]string{"Content-Type": "text/csv", "Idempotency-Key": "k"}}).expect(t, 202)
	}
	if first, again := send(), send(); first.raw != again.raw || again.header.Get("Idempotency-Replayed") != "true" || again.header.Get("Location") != first.header.Get("Location") {
		t.Errorf("first %s, again %s", first.raw, again.raw)
	}
}

// What is wrong with an import as a whole is said at once, and nothing is stored.
func TestImportFaults(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const (
		csvMedia = "text/csv;charset=UTF-8"
		lines    = "application/x-ndjson"
		list     = "application/json"
	)
	for _, tc := range []struct {
		query, media, body string
		details            string
	}{
		{"mode=merge&dryRun=1&x=2", list, `{"leads":[]}`, "UnknownField x"},
		{"mode=merge&dryRun=1", list, `{"leads":[]}`, "OutOfRange mode; InvalidType dryRun"},
		{"mode=", list, `{"leads":[]}`, "NullValue mode"},
		{"", list, `{"leads":[{"name":"a"}`, "InvalidFormat "},
		{"", list, `{"leads":[{"name":"a"}],"mode":"create"}`, "UnknownField mode"},
		{"", list, `{}`, "NullValue leads"},
		{"", list, `{"leads":[` + strings.Repeat("[", 20_000) + `]}`, "InvalidFormat "},
		{"", csvMedia, "nmae,name,qq,qq\na,b,c,d\n", "UnknownField nmae; Duplicate qq"},
		{"mode=update", csvMedia, "name\na\n", "NullValue leadsId"},
		{"", csvMedia, "name\na\n\"b\n", "InvalidFormat "},
		{"", csvMedia, "name\n\"a\"b\n", "InvalidFormat "},
	} {
		f.do(call{method: "POST", target: "/v1/leads/imports?" + tc.query, body: tc.body, headers: map[string]string{"Content-Type": tc.media}}).
			fault(t, 400, "BadRequest", strings.Split(tc.details, "; ")...)
	}
	f.do(call{method: "POST", target: "/v1/leads/imports", body: "name\n", headers: map[string]string{"Content-Type": "application/vnd.ms-excel"}}).fault(t, 415, "UnsupportedMediaType")
	if f.wakes.n.Load() != 0 {
		t.Error("the pump was woken")
	}
	for _, id := range []string{"imp_nope", waypost.NewID(waypost.PrefixImport, f.clock.Now())} {
		f.get("/v1/leads/imports/"+id).fault(t, 404, "NotFound")
		f.get("/v1/leads/imports/"+id+"/errors").fault(t, 404, "NotFound")
		f.send("POST", "/v1/leads/imports/"+id+"/cancel", "").fault(t, 404, "NotFound")
	}
	// A row that is too long fails alone.
	im := f.imported("create", csvMedia, "name,remark\na,"+strings.Repeat("x", 1<<20)+"\nb,\"=1+1\"\n")
	if im.Created != 1 || im.Failed != 1 {
		t.Errorf("%+v, %q", im, f.errorsOf(im.ID))
	}
}
