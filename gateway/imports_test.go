package gateway_test

import (
	"encoding/json"
	"fmt"
	"reflect"
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
	want := `{"id":"` + id + `","status":"pending","mode":"create","match":null,"dryRun":false,"total":6,"processed":0,"created":0,"updated":0,"failed":0,"message":null,` +
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
		{"match=email", list, `{"leads":[]}`, "OutOfRange match"},
		{"match=name&mode=upsert", list, `{"leads":[]}`, "OutOfRange match"},
		{"match=email&mode=update", "text/csv", "externalId\n1\n", "NullValue email"},
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

// Of a file that is not wholly in its charset, or that is no text, nothing is stored.
func TestImportIsWhole(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const gbk = "name,externalId\r\n\xd5\xc5\xc8\xfd,g1\r\n\xc3\xab\xce\xb0,g2\r\n\xc2\xbd\xd6\xbe\xc7\xbf,g3\r\n"
	send := func(media, body string) answer {
		return f.do(call{method: "POST", target: "/v1/leads/imports", body: body, headers: map[string]string{"Content-Type": media}})
	}
	send("text/csv", gbk).fault(t, 400, "BadRequest")
	send("text/csv;charset=utf-8", gbk).fault(t, 400, "BadRequest")
	send("application/x-ndjson", "{\"name\":\"a\"}\n{\"name\":\"\xd5\xc5\"}\n").fault(t, 400, "BadRequest")
	send("application/json", "{\"leads\":[{\"name\":\"a\"},{\"name\":\"\xd5\xc5\"}]}").fault(t, 400, "BadRequest")
	send("text/csv", "PK\x03\x04xl/").fault(t, 400, "BadRequest")
	if got := f.get("/v1/leads").expect(t, 200); got.raw != `{"items":[],"nextCursor":null}` {
		t.Errorf("stored: %s", got.raw)
	}
	refused := send("text/csv; charset=klingon", gbk)
	refused.fault(t, 415, "UnsupportedMediaType", []string{}...)
	if !strings.Contains(refused.raw, "there is no charset klingon: it must be utf-8, gb18030") {
		t.Errorf("%s", refused.raw)
	}
	for _, media := range []string{"text/csv; charset=gbk; header=absent", "text/csv; charset=utf-8; boundary=x", "application/x-ndjson; header=present"} {
		if a := send(media, gbk).fault(t, 415, "UnsupportedMediaType", []string{}...); !strings.Contains(a.raw, "no parameter but charset and, of text/csv, header=present") {
			t.Errorf("%s: %s", media, a.raw)
		}
	}
	for _, media := range []string{"text/csv; charset=utf-8; header=present", `text/csv; Header="Present"`} {
		send(media, "name\nAda\n").expect(t, 202)
	}
	f.do(call{method: "POST", target: "/v1/leads", body: `{"businessParam":{"name":"a"}}`, headers: map[string]string{"Content-Type": "application/json; charset=gbk"}}).fault(t, 415, "UnsupportedMediaType", []string{}...)

	if im := f.imported("create", `text/csv; charset="GB18030"`, gbk); im.Total != 3 || im.Created != 3 {
		t.Errorf("%+v, %q", im, f.errorsOf(im.ID))
	}
	if got := f.get("/v1/leads?externalId=g3").expect(t, 200); !strings.Contains(got.raw, `"name":"陆志强"`) {
		t.Errorf("%s", got.raw)
	}
	if im := f.imported("upsert", "application/x-ndjson;charset=gbk", "{\"externalId\":\"g1\",\"name\":\"\xc0\xee\xcb\xc4\"}\n"); im.Updated != 1 {
		t.Errorf("%+v, %q", im, f.errorsOf(im.ID))
	}
	if got := f.get("/v1/leads?externalId=g1").expect(t, 200); !strings.Contains(got.raw, `"name":"李四"`) {
		t.Errorf("%s", got.raw)
	}
}

// Rows that a spreadsheet leaves empty do not count; the lines of the others are those
// of the file.
func TestImportPassesEmptyRowsOver(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	im := f.imported("create", "text/csv", "name,email,,\r\n,,,\r\nAda,ada@example.com,,\r\n \r\n,,,\r\nBob,bob,,\r\n,,,,,\r\n")
	if im.Total != 2 || im.Created != 1 || im.Failed != 1 {
		t.Errorf("%+v", im)
	}
	if got := strings.Join(f.errorsOf(im.ID), "\n"); got != "6 BadRequest businessParam, InvalidFormat email" {
		t.Errorf("%s", got)
	}
}

// What is copied with invisible characters is stored without them, and found with them.
func TestInvisibleCharacters(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	created := f.send("POST", "/v1/leads", `{"businessParam":{"name":"\u200b张三 ","mobilePhone":["\u202d13800138000\u202c，"],"email":"zhang\u00ad@example.com\u00a0","externalId":"\ufeffcrm-1","openId":" o-1\u2060"}}`).expect(t, 201)
	for member, want := range map[string]any{"name": "张三", "email": "zhang@example.com", "externalId": "crm-1", "openId": "o-1", "mobilePhone": []any{"13800138000"}} {
		if got := created.json[member]; !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %q, want %q", member, got, want)
		}
	}
	f.send("POST", "/v1/leads", `{"businessParam":{"name":"\u200b\u2060"}}`).fault(t, 400, "BadRequest", "NullValue name")
	f.send("POST", "/v1/leads", `{"businessParam":{"name":"a","externalId":"crm-1\u200d"}}`).fault(t, 409, "Conflict", "Duplicate externalId")
	for _, filter := range []string{
		"name=%E2%80%8B%E5%BC%A0", "email=%E2%80%AAzhang@example.com%20", "externalId=crm-1%EF%BB%BF", "mobilePhone=%E2%80%AD13800138000%E2%80%AC", "mobilePhone=138%C2%A00013%C2%A08000%E3%80%82",
	} {
		if got := f.get("/v1/leads?"+filter).expect(t, 200); !strings.Contains(got.raw, `"externalId":"crm-1"`) {
			t.Errorf("%s: %s", filter, got.raw)
		}
	}
	if got := f.get("/v1/leads?name=%E5%BC%A0%20").expect(t, 200); got.raw != `{"items":[],"nextCursor":null}` {
		t.Errorf("a blank at the end of a beginning: %s", got.raw)
	}
	id := created.json["leadsId"]
	path := fmt.Sprintf("/v1/leads/%.0f", id)
	if got := f.send("PATCH", path, `{"businessParam":{"name":"李\u200b四","mobilePhone":["\u2066139 0013 9000\u2069"]}}`).expect(t, 201); got.json["name"] != "李四" || !strings.Contains(got.raw, `"mobilePhone":["139 0013 9000"]`) {
		t.Errorf("PATCH: %s", got.raw)
	}
	if got := f.send("PUT", path, `{"businessParam":{"name":"王五\u00a0","externalId":"crm-1\u200b"}}`).expect(t, 201); got.json["name"] != "王五" || got.json["externalId"] != "crm-1" {
		t.Errorf("PUT: %s", got.raw)
	}
	if im := f.imported("update", "text/csv", "externalId,name\ncrm-1\u200b,赵六\u00a0\n"); im.Updated != 1 {
		t.Errorf("update: %+v, %q", im, f.errorsOf(im.ID))
	}
	if im := f.imported("upsert", "application/x-ndjson", "{\"externalId\":\" crm-1\",\"mobilePhone\":[\"13800138000。\"]}\n{\"externalId\":\"crm-2\",\"name\":\"b\",\"mobilePhone\":[\"\u200b13800138000\"]}"); im.Updated != 1 || im.Failed != 1 {
		t.Errorf("upsert: %+v, %q", im, f.errorsOf(im.ID))
	}
	if got := f.get(path).expect(t, 200); got.json["name"] != "赵六" {
		t.Errorf("imported: %s", got.raw)
	}
}
