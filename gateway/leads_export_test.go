package gateway_test

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"waypost"
	"waypost/gateway"
)

const exportPath = "/v1/leads/export"

// exported reads an export to its end.
func (f *fixture) exported(stage, path, query string) (body string, res *http.Response) {
	f.t.Helper()
	c := call{method: "GET", target: path + "?" + query}
	req, err := http.NewRequestWithContext(f.t.Context(), c.method, "http://"+f.addr+c.target, nil)
	if err != nil {
		f.t.Fatal(err)
	}
	req.Header.Set("X-Cloud-Stage", stage)
	f.sign(req, c)
	if res, err = f.client.Do(req); err != nil {
		f.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	raw, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != 200 {
		f.t.Fatalf("%d, %v: %s", res.StatusCode, err, raw)
	}
	return string(raw), res
}

// strange are leads whose fields are made to be changed on their way.
var strange = []string{
	`{"name":"bare"}`,
	`{"name":"=1+1","remark":"a\r\nb\rc\nd","address":"","company":"\"q\", 'r'","wechat":"'","qq":"007","telephone":"-1","companyPhone":"+1","openId":"@x"}`,
	`{"name":"'=1","mobilePhone":["+8613800000000","139 0000 0000"," 13700000000 "],"region":-5,"leadsGroup":9223372036854775807,"gender":0,"birthday":"1990-12-31"}`,
	`{"name":"＝1","externalId":"'e","email":"a@example.com","companyEmail":"=b@example.com","companyWebsite":"example.com","customFields":{"n":-1.5,"z":0,"s":"-1.5","t":true,"u":"true","v":"'true","w":"","x":"'","big":9007199254740992,"small":1e-9}}`,
	`{"name":"\u00a0x.lead","customFields":{"a \"b\", c":"=x","n":"1","t":"null","w":" "}}`,
	`{"name":"blank","remark":"  ","address":"\u200b","mobilePhone":["\u202d13800138000\u202c"],"customFields":{"x":"\t"}}`,
	`{"name":"张三 😀","remark":"","customFields":{"n":"'1","customFields.n":"\r"}}`,
}

func TestExportLeads(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, lead := range strange {
		f.send("POST", "/v1/leads", `{"businessParam":`+lead+`}`).expect(t, 201)
	}
	var want string
	for _, item := range strings.SplitAfter(strings.TrimSuffix(strings.TrimPrefix(f.get("/v1/leads?limit=500").raw, `{"items":[`), `],"nextCursor":null}`), `Z"},`) {
		want += strings.TrimSuffix(item, ",") + "\n"
	}
	want += fmt.Sprintf(`{"end":true,"count":%d}`+"\n", len(strange))
	for _, query := range []string{"", "format=ndjson"} {
		got, res := f.exported("release", exportPath, query)
		if got != want {
			t.Errorf("%s: got\n%s\nwant\n%s", query, got, want)
		}
		if res.Header.Get("Content-Type") != "application/x-ndjson" || res.Header.Get("Content-Disposition") != `attachment; filename="leads.ndjson"` {
			t.Errorf("%v", res.Header)
		}
	}
	whole, res := f.exported("release", exportPath, "format=csv")
	if res.Header.Get("Content-Type") != "text/csv;charset=UTF-8" || res.Header.Get("Content-Disposition") != `attachment; filename="leads.csv"` || res.Trailer.Get("X-Waypost-Count") != fmt.Sprint(len(strange)) {
		t.Errorf("%v, trailer %v", res.Header, res.Trailer)
	}
	// Filters and order are the list's.
	for query, count := range map[string]int{"name=%E5%BC%A0": 1, "region=-5&sort=-leadsId": 1, "leadsGroup=1": 0} {
		got, res := f.exported("release", exportPath, "format=csv&"+query)
		rows, err := csv.NewReader(strings.NewReader(got)).ReadAll()
		if err != nil || len(rows) != count+1 || res.Trailer.Get("X-Waypost-Count") != fmt.Sprint(count) {
			t.Errorf("%s: %v, %s", query, err, got)
		}
	}
	marked, _ := f.exported("release", exportPath, "format=csv&bom=true")
	if marked != "\uFEFF"+whole {
		t.Errorf("bom=true: %.100q", marked)
	}
	if got, _ := f.exported("release", exportPath, "format=ndjson&bom=false"); got != want {
		t.Errorf("bom=false: %.100q", got)
	}
	for query, details := range map[string]string{"bom=true": "OutOfRange bom", "format=ndjson&bom=true": "OutOfRange bom", "format=csv&bom=1": "InvalidType bom", "format=xml&sort=x&region=a": "InvalidType region; OutOfRange sort; OutOfRange format", "limit=5": "UnknownField limit", "createdFrom=2026-02-01T00:00:00Z&createdTo=2026-01-01T00:00:00Z": "OutOfRange createdFrom", "cursor=x": "UnknownField cursor"} {
		f.get("/v1/leads/export?"+query).fault(t, 400, "BadRequest", strings.Split(details, "; ")...)
	}
	for _, format := range []string{"ndjson", "csv"} {
		head, reusable := f.raw("HEAD", "/v1/leads/export?format="+format, "", "Host: "+f.addr, "SIGN")
		if head.status != 200 || head.raw != "" || !reusable || head.header.Get("Content-Disposition") == "" || head.header.Get("Content-Length") != "" {
			t.Errorf("HEAD: %d %v %q", head.status, head.header, head.raw)
		}
	}

	// What is imported elsewhere is the same there, in all that a client chooses.
	lines, _ := f.exported("release", exportPath, "")
	for i, im := range []waypost.Import{
		f.importInto("test", "create", "text/csv;charset=UTF-8", marked),
		f.importInto("pre-release", "upsert", "application/x-ndjson", lines),
		f.importInto("test", "update", "text/csv", ofStage(f, "test")), // changes nothing
		f.importInto("release", "upsert", "text/csv", whole),
	} {
		if im.Failed > 0 || im.Created+im.Updated != len(strange) || (i < 2) != (im.Created > 0) {
			t.Errorf("import %d: %+v", i, im)
		}
	}
	for _, stage := range []string{"test", "pre-release", "release"} {
		if got, want := chosen(t, ofStage(f, stage)), chosen(t, whole); got != want {
			t.Errorf("%s: got\n%s\nwant\n%s", stage, got, want)
		}
	}
}

func ofStage(f *fixture, stage string) string {
	f.t.Helper()
	body, _ := f.exported(stage, exportPath, "format=csv")
	return body
}

// chosen is an export without the columns that the gateway chooses.
func chosen(t *testing.T, body string) string {
	t.Helper()
	rows, err := csv.NewReader(strings.NewReader(strings.ReplaceAll(body, "\r", "\\r"))).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for _, row := range rows {
		for i, name := range rows[0] {
			if !slices.Contains([]string{"leadsId", "createdAt", "updatedAt"}, name) {
				fmt.Fprintf(&out, "%s=%q ", name, row[i])
			}
		}
		out.WriteString("\n")
	}
	return out.String()
}

// brokenExport are leads whose export ends too soon, but not at once.
type brokenExport struct{ gateway.Leads }

func (b brokenExport) ExportLeads(ctx context.Context, sc waypost.Scope, q waypost.LeadQuery, begin func([]string) error, each func(waypost.Lead) error) error {
	return errors.Join(b.Leads.ExportLeads(ctx, sc, q, begin, func(l waypost.Lead) error {
		var err error
		for range 2000 {
			err = errors.Join(err, each(l))
		}
		return err
	}), errors.New("the connection is gone"))
}

// An export that cannot go on is seen to be none.
func TestExportCutOff(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(o *gateway.Options) { o.Leads = brokenExport{o.Leads} })
	f.newLead("Ada")
	for _, format := range []string{"ndjson", "csv"} {
		f.cutOff(exportPath + "?format=" + format)
	}
	if !strings.Contains(f.log.String(), "an answer was cut off") {
		t.Error("nobody is told")
	}
}

// cutOff reads an export that must be seen not to be complete.
func (f *fixture) cutOff(target string) {
	f.t.Helper()
	c := call{method: "GET", target: target}
	req, err := http.NewRequestWithContext(f.t.Context(), c.method, "http://"+f.addr+c.target, nil)
	if err != nil {
		f.t.Fatal(err)
	}
	f.sign(req, c)
	res, err := f.client.Do(req)
	if err != nil {
		f.t.Fatal(err)
	}
	raw, err := io.ReadAll(res.Body)
	_ = res.Body.Close()
	if err == nil || len(raw) == 0 || strings.Contains(string(raw), `"end"`) || res.Trailer.Get("X-Waypost-Count") != "" {
		f.t.Errorf("%s: %v, %q, trailer %v", target, err, raw, res.Trailer)
	}
}

// CSV has a column for each custom field, up to 2,000; more are refused before the first row.
func TestExportTooManyColumns(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for lead := range 32 {
		fields := make([]string, 63)
		for i := range fields {
			fields[i] = fmt.Sprintf(`"f%d":1`, 63*lead+i)
		}
		f.send("POST", "/v1/leads", `{"businessParam":{"name":"Ada","customFields":{`+strings.Join(fields, ",")+`}}}`).expect(t, 201)
	}
	a := f.get("/v1/leads/export?format=csv").expect(t, 422)
	if !strings.Contains(a.raw, "2000 different custom fields") || !strings.Contains(a.raw, `"target":"format"`) {
		t.Errorf("answered %s", a.raw)
	}
	f.get("/v1/leads/export").expect(t, 200)
}
