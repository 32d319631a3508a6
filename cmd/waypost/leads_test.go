package main

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"
)

// What the commands send, and what they say.
func TestLeadsCalls(t *testing.T) {
	t.Parallel()
	const lead = `{"leadsId":7,"name":"Ada","mobilePhone":["138","139"],"email":null,"updatedAt":"t"}`
	routes := map[string]func(request) reply{
		"POST /v1/leads": always(201, lead), "PATCH /v1/leads/7": always(201, lead), "PUT /v1/leads/7": always(201, lead),
		"DELETE /v1/leads/7":   always(204, ""),
		"GET /v1/leads/7":      func(request) reply { return reply{200, lead, map[string]string{"ETag": `"abc"`}} },
		"GET /v1/leads":        always(200, `{"items":[`+lead+`],"nextCursor":"more"}`),
		"GET /v1/leads/fields": always(200, `{"items":[{"name":"plan","type":"string","share":0.5}],"sampled":2}`),
		"POST /v1/leads/count": always(200, `{"count":2,"sample":[7,8]}`),
	}
	shown := file(t, "lead.json", `{"leadsId":7,"name":"Ada","remark":null,"createdAt":"a","updatedAt":"b"}`)
	for _, tt := range []struct {
		name, stdin string
		args        []string
		sent        string // METHOD target
		body        string // "" for none
		match       string
		says        string
	}{
		{"create from flags", "", []string{"create", "--name", "Ada", "--mobile-phone", "138", "--mobile-phone", "+1 139", "--gender", "0", "--leads-group", "-3", "--external-id", "",
			"--custom", "plan=gold", "--custom", "seats:=5"}, "POST /v1/leads",
			`{"businessParam":{"name":"Ada","mobilePhone":["138","+1 139"],"gender":0,"leadsGroup":-3,"externalId":"","customFields":{"plan":"gold","seats":5}}}`, "", "leadsId      7\n"},
		{"create from YAML and flags", "name: Ada\nqq: \"007\"\n", []string{"create", "-f", "-", "--name", "Eve"}, "POST /v1/leads", `{"businessParam":{"name":"Eve","qq":"007"}}`, "", ""},
		{"create from JSON", "", []string{"create", "-d", `{"businessParam":{"name":"Ada"},"odd":1}`}, "POST /v1/leads", `{"businessParam":{"name":"Ada"},"odd":1}`, "", ""},
		{"create from a body and flags", "", []string{"create", "-d", `{"businessParam":{"name":"Ada"},"odd":1}`, "--email", "a@b"}, "POST /v1/leads",
			`{"businessParam":{"name":"Ada","email":"a@b"},"odd":1}`, "", ""},
		{"update", "", []string{"update", "7", "--email", "a@b", "--clear", "remark", "--clear", "company-website", "--custom", "a=b", "--clear", "customFields.c"}, "PATCH /v1/leads/7",
			`{"businessParam":{"email":"a@b","remark":null,"companyWebsite":null,"customFields":{"a":"b","c":null}}}`, "", "Ada"},
		{"update if it is this version", "remark: null\n", []string{"update", "7", "-f", "-", "--if-match", `"abc"`}, "PATCH /v1/leads/7", `{"businessParam":{"remark":null}}`, `"abc"`, ""},
		{"replace by what was shown", "", []string{"update", "7", "-f", shown, "--replace"}, "PUT /v1/leads/7", `{"businessParam":{"name":"Ada","remark":null}}`, "", ""},
		{"delete", "", []string{"delete", "7", "--if-match", "*"}, "DELETE /v1/leads/7", "", "*", "deleted 7\n"},
		{"delete as JSON", "", []string{"delete", "7", "-o", "json"}, "DELETE /v1/leads/7", "", "", "{\n  \"deleted\": true,\n  \"leadsId\": 7\n}\n"},
		{"show", "", []string{"show", "7"}, "GET /v1/leads/7", "", "", "leadsId      7\n"},
		{"show the ETag", "", []string{"show", "7", "--etag"}, "GET /v1/leads/7", "", "", "\"abc\"\n"},
		{"list", "", []string{"list"}, "GET /v1/leads?limit=50", "", "", "7   Ada   138, 139"},
		{"fields", "", []string{"fields"}, "GET /v1/leads/fields", "", "", "plan  string  0.5\n"},
		{"count", "", []string{"count", "--filter", "customFields.plan=gold", "--filter", "gender=2"}, "POST /v1/leads/count",
			`{"audience":{"filter":{"customFields.plan":"gold","gender":2}}}`, "", "count   2\n"},
		{"count of a list", "7\n8\n", []string{"count", "--leads", "-"}, "POST /v1/leads/count", `{"audience":{"leadsIds":[7,8]}}`, "", "sample  [7,8]"},
		{"count of a condition", "", []string{"count", "--when", `lead.region == 1`}, "POST /v1/leads/count", `{"when":"lead.region == 1"}`, "", "count   2\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := newPeer(t, routes)
			r := runCLI(t, p.environ(), tt.stdin, append([]string{"leads"}, tt.args...)...)
			r.want(t, 0, []string{tt.says}, nil)
			got := p.last(t)
			if sent := got.method + " " + got.target; sent != tt.sent || got.header.Get("If-Match") != tt.match {
				t.Errorf("sent %s with If-Match %q", sent, got.header.Get("If-Match"))
			}
			if tt.body == "" && got.body == "" {
				return
			}
			sameJSON(t, got.body, tt.body)
		})
	}

	p := newPeer(t, routes)
	runCLI(t, p.environ(), "", "leads", "list", "--leads-ids", "7,9", "--leads-group", "3", "--region", "0", "--name", "A d", "--mobile-phone", "+86", "--email", "a@b", "--external-id", "x", "--gender", "2", "--birthday=--12-31",
		"--custom-field", "plan=gold", "--custom-field", "a b=x=y", "--created-from", "1", "--created-to", "2", "--updated-from", "3", "--updated-to", "4", "--sort", "-createdAt", "--limit", "9", "--cursor", "c").want(t, 0, nil, []string{"--cursor more"})
	u, err := url.Parse(p.last(t).target)
	want := "birthday=--12-31&createdFrom=1&createdTo=2&cursor=c&customFields.a+b=x%3Dy&customFields.plan=gold&email=a%40b&externalId=x&gender=2&leadsGroup=3&leadsIds=7%2C9&limit=9&mobilePhone=%2B86&name=A+d&region=0&sort=-createdAt&updatedFrom=3&updatedTo=4"
	if err != nil || u.Query().Encode() != want {
		t.Errorf("got  %s, %v\nwant %s", u.Query().Encode(), err, want)
	}
}

// An erasure shows what was erased, and what is kept until when.
func TestLeadsErase(t *testing.T) {
	t.Parallel()
	client := newClientOf(t)
	made := runCLI(t, client, "", "leads", "create", "--name", "Ada", "-o", "json")
	var lead members
	if err := json.Unmarshal([]byte(made.stdout), &lead); err != nil {
		t.Fatal(err)
	}
	runCLI(t, client, "", "leads", "erase", lead.text("leadsId")).want(t, 0,
		[]string{"Erased lead " + lead.text("leadsId"), "answers", "KEPT", "UNTIL", "backups of the database", "you overwrite them"}, nil)
	runCLI(t, client, "", "leads", "erase", lead.text("leadsId")).want(t, 1, nil, []string{"NotFound"})
}

// What is wrong is said before anything is sent.
func TestLeadsUsage(t *testing.T) {
	t.Parallel()
	p := newPeer(t, nil)
	csv := file(t, "leads.csv", "name\nAda\n")
	for _, tt := range []struct {
		code       int
		args, says string
	}{
		{2, "create", "create needs -f FILE"},
		{2, "create --name Ada -f a -d {}", "-f and -d"},
		{2, "create -d [1]", `-d must be a JSON object`},
		{2, "create -d {", `-d must be a JSON object`},
		{2, "create --gender f", "no whole number"},
		{2, "create --custom x", `--custom "x": it is name=text or name:=JSON`},
		{2, "create --custom x:=y", "must be JSON"},
		{1, `create -d {"businessParam":7} --name Ada`, "read the object"},
		{2, "update 7", "update needs what is to change"},
		{2, "update 7 --email a --clear email", "--clear email: it is set or cleared by another flag"},
		{2, "update 7 --custom a=b --clear customFields", "--clear customFields: it is set"},
		{2, "update 7 --custom a=b --clear customFields.a", "set or cleared by another flag"},
		{2, "update 7 --clear customFields --clear customFields.a", "set or cleared by another flag"},
		{2, "update 7 --email a --if-match=", "--if-match is empty"},
		{1, `update 7 -d {"leadsId":8,"name":"Ada"}`, "is lead 8, not lead 7"},
		{2, "delete", "usage: waypost leads delete ID"},
		{2, "erase", "usage: waypost leads erase ID"},
		{2, "import", "usage: waypost leads import FILE"},
		{2, "import leads.txt", `the name "leads.txt" does not tell the format: --format is csv, ndjson or json`},
		{2, "import leads.XLSX", `leads.XLSX is a workbook: save its sheet as "CSV UTF-8"`},
		{2, "import leads.csv.gz", "leads.csv.gz is compressed: unpack it"},
		{2, "import leads.csv --encoding=", `"--encoding" flag: it is empty`},
		{2, "export --excel --format ndjson", "--excel writes CSV"},
		{2, "export --excel --to leads.ndjson", "--excel writes CSV"},
		{2, "import -", `the name "-" does not tell the format`},
		{2, "import leads.csv --format xml", "--format xml: it is csv, ndjson or json"},
		{2, "import leads.csv --mode replace", "--mode replace: it is create, update or upsert"},
		{2, "import leads.csv --key=", `"--key" flag: it is empty`},
		{2, "import leads.csv --no-wait --errors e.ndjson", "--errors needs the end of the import"},
		{1, "import /does/not/exist.csv", "read /does/not/exist.csv: no such file"},
		{1, "import - --format csv", "standard input is empty"},
		{1, "import " + csv + " --mode upsert --dry-run", "NotFound: no such thing"}, // the only one that is sent
		{2, "export --format json", "--format json: it is ndjson or csv"},
		{2, "export --to leads.json", "does not tell the format"},
		{2, "export --to=", `"--to" flag: it is empty`},
		{1, "export --to /does/not/exist/leads.csv", "write /does/not/exist/leads.csv: no such file"},
		{1, "export --to " + t.TempDir() + " --format csv", "is a directory"},
		{2, "imports", "waypost leads imports needs one of its commands: cancel, errors, show"},
	} {
		t.Run(tt.args, func(t *testing.T) {
			t.Parallel()
			runCLI(t, p.environ(), "", append([]string{"leads"}, strings.Fields(tt.args)...)...).want(t, tt.code, nil, []string{tt.says})
		})
	}
	t.Cleanup(func() {
		if n := len(p.requests()); n != 1 {
			t.Errorf("%d requests were sent, want 1", n)
		}
	})
}

// A stale or missing If-Match says what to do.
func TestLeadsIfMatch(t *testing.T) {
	t.Parallel()
	p := newPeer(t, map[string]func(request) reply{
		"PATCH /v1/leads/7":  always(412, `{"code":"PreconditionFailed","message":"changed","target":"If-Match","detail":[]}`),
		"DELETE /v1/leads/7": always(428, `{"code":"PreconditionRequired","message":"must send If-Match","target":"If-Match","detail":[]}`),
	})
	for _, args := range []string{"update 7 --name Ada", "delete 7"} {
		runCLI(t, p.environ(), "", append([]string{"leads"}, strings.Fields(args)...)...).
			want(t, 1, nil, []string{"Precondition", `--if-match "$(waypost leads show 7 --etag)"`})
	}
}
