package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"

	signed "waypost/client"
	"waypost/signature"
)

const (
	clientsDir  = "../../docs/clients/"
	vectorsFile = "../../signature/testdata/signature.json"
)

// clientProgram is the signing client of a language.
type clientProgram struct {
	call  []string // the command that makes a call: METHOD TARGET [BODY ['Name: value' ...]] are added
	sign  []string // the command that prints the signature headers of the vectors on standard input
	needs []string // programs that it starts
}

var clientPrograms = map[string]clientProgram{
	"Python": {[]string{"python3", clientsDir + "waypost.py"}, []string{"python3", "-c", `
import json, sys
sys.path.append("` + clientsDir + `")
import waypost
v = json.load(sys.stdin)
for c in v["cases"]:
    headers = waypost.sign(v["accessKey"], v["secretKey"], c["method"], c["target"], c["headers"], c["body"].encode(), v["timestamp"], v["nonce"])
    print(headers["X-Cloud-Signature"])
`}, nil},
	"Node": {[]string{"node", clientsDir + "waypost.mjs"}, []string{"node", "--input-type=module", "-e", `
import { readFileSync } from 'node:fs'
import { sign } from '` + clientsDir + `waypost.mjs'
const v = JSON.parse(readFileSync(0))
for (const c of v.cases) {
  const headers = sign(v.accessKey, v.secretKey, c.method, c.target, c.headers, Buffer.from(c.body), v.timestamp, v.nonce)
  console.log(headers['X-Cloud-Signature'])
}
`}, nil},
	// The test writes the calls of waypost_sign: sh reads no JSON.
	"shell": {[]string{"sh", clientsDir + "waypost.sh"}, []string{"sh", "-eu"}, []string{"curl", "openssl", "awk"}},
}

// command starts nothing yet; it skips the test where a program is missing.
func (c clientProgram) command(t *testing.T, settings []string, args ...string) *exec.Cmd {
	t.Helper()
	needTools(t, append(c.needs, args[0])...)
	cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
	cmd.Env = append(append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1"), settings...)
	return cmd
}

func TestClientsSignVectors(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(vectorsFile)
	if err != nil {
		t.Fatal(err)
	}
	var v struct {
		AccessKey, SecretKey, Nonce string
		Cases                       []struct {
			Name, Method, Target string
			Headers              map[string]string
			Signed               map[string]string `json:"signedRequestHeaders"`
		}
	}
	if err := json.Unmarshal(text, &v); err != nil || len(v.Cases) < 8 {
		t.Fatalf("%d vectors, %v", len(v.Cases), err)
	}
	var script strings.Builder
	fmt.Fprintf(&script, ". %swaypost.sh\n", clientsDir)
	for _, c := range v.Cases {
		words := []string{"waypost_sign", c.Method, c.Target, c.Signed["X-Cloud-Timestamp"], v.Nonce, c.Signed["X-Cloud-Content-SHA256"]}
		for name, value := range c.Headers {
			words = append(words, name+": "+value)
		}
		for i, word := range words {
			words[i] = "'" + word + "'"
		}
		fmt.Fprintln(&script, strings.Join(words, " "))
	}
	for language, c := range clientPrograms {
		t.Run(language, func(t *testing.T) {
			t.Parallel()
			cmd := c.command(t, []string{"WAYPOST_ACCESS_KEY=" + v.AccessKey, "WAYPOST_SECRET_KEY=" + v.SecretKey}, c.sign...)
			cmd.Stdin = bytes.NewReader(text)
			if language == "shell" {
				cmd.Stdin = strings.NewReader(script.String())
			}
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			out, err := cmd.Output()
			if err != nil {
				t.Fatalf("%v\n%s", err, stderr.Bytes())
			}
			lines := strings.Split(strings.TrimSpace(string(out)), "\n")
			if len(lines) != len(v.Cases) {
				t.Fatalf("%d signatures of %d vectors", len(lines), len(v.Cases))
			}
			for i, c := range v.Cases {
				if want := c.Signed["X-Cloud-Signature"]; lines[i] != want {
					t.Errorf("%s:\n got %s\nwant %s", c.Name, lines[i], want)
				}
			}
		})
	}
}

// caller makes a call with a client and returns whether it was a success, and what
// the client shows of the answer.
type caller func(t *testing.T, method, target, body string, headers ...string) (ok bool, answer string)

// callers are the clients of all languages for a gateway with these settings.
func callers(settings []string) map[string]caller {
	all := map[string]caller{"Go": func(t *testing.T, method, target, body string, headers ...string) (bool, string) {
		t.Helper()
		var values [3]string
		for i, name := range []string{"WAYPOST_URL=", "WAYPOST_ACCESS_KEY=", "WAYPOST_SECRET_KEY="} {
			for _, s := range settings {
				if value, ok := strings.CutPrefix(s, name); ok {
					values[i] = value
				}
			}
		}
		header, data := http.Header{"Content-Type": {"application/json"}}, []byte(body)
		for _, h := range headers {
			name, value, _ := strings.Cut(h, ": ")
			header.Set(name, value)
		}
		if path, ok := strings.CutPrefix(body, "@"); ok {
			var err error
			if data, err = os.ReadFile(path); err != nil {
				t.Fatal(err)
			}
		}
		res, err := signed.New(values[0], signature.Key{AccessKey: values[1], SecretKey: values[2]}).Send(t.Context(), method, target, header, data)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		answer, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res.StatusCode < 300, string(answer)
	}}
	for language, c := range clientPrograms {
		all[language] = func(t *testing.T, method, target, body string, headers ...string) (bool, string) {
			t.Helper()
			cmd := c.command(t, settings, append(append(c.call[:len(c.call):len(c.call)], method, target, body), headers...)...)
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			out, err := cmd.Output()
			if err != nil && len(out) == 0 {
				t.Fatalf("%s %s: %v\n%s", method, target, err, stderr.Bytes())
			}
			return err == nil, string(out)
		}
	}
	return all
}

// What the clients sign is what arrives, byte for byte, however odd it is.
func TestClientsSendWhatTheySign(t *testing.T) {
	t.Parallel()
	echo := func(r request) reply { return reply{status: 200, body: `{"target":true}`} }
	csv := file(t, "leads.csv", "name\r\n\"Ada\n\u4e2d\"\r\n\x00")
	for language := range callers(nil) {
		t.Run(language, func(t *testing.T) {
			t.Parallel()
			p := newPeer(t, map[string]func(request) reply{
				"GET /v1/leads": echo, "POST /v1/leads": echo, "POST /v1/journeys/jrn_%E4%BD%A0~!$'()*,;:@/publish": echo, "PATCH /v1/leads/7": echo,
			})
			call := callers(p.environ())[language]
			for _, tt := range []struct {
				method, target, body string
				headers              []string
			}{
				{"GET", "/v1/leads?sort=-createdAt&a-b=2&a=1&a=0&flag&name=%E5%BC%A0&&email=a%40b.co&x[]=1&y=?&z==&Z='a'&=", "", nil},
				{"POST", "/v1/leads", `{"businessParam":{"name":"张 O’Neill","remark":"a  \\ \"b\" $HOME %s"}}`, []string{"Idempotency-Key: k 1"}},
				{"POST", "/v1/leads?", "@" + csv, []string{"content-type: text/csv;  charset=UTF-8", "X-Cloud-Stage: test"}},
				{"PATCH", "/v1/leads/7", `{}`, []string{`If-Match:   "abc   def"  `, "X-Other: not signed", "X-Cloud-Actor: 李 Ada <ada@example.com>"}},
				{"POST", "/v1/journeys/jrn_%E4%BD%A0~!$'()*,;:@/publish", "", nil},
			} {
				if ok, answer := call(t, tt.method, tt.target, tt.body, tt.headers...); !ok || strings.ReplaceAll(answer, " ", "") != `{"target":true}` && strings.TrimSpace(answer) != `{"target":true}` {
					t.Errorf("%s %s: answer %s", tt.method, tt.target, answer)
					continue
				}
				got, want := p.last(t), tt.body
				if path, ok := strings.CutPrefix(want, "@"); ok {
					text, err := os.ReadFile(path)
					if err != nil {
						t.Fatal(err)
					}
					want = string(text)
				}
				if got.target != tt.target || got.body != want {
					t.Errorf("%s %s %q arrived as %s %q", tt.method, tt.target, want, got.target, got.body)
				}
				for _, h := range tt.headers {
					name, value, _ := strings.Cut(h, ":")
					if got.header.Get(name) != strings.TrimSpace(value) {
						t.Errorf("%s arrived as %q", h, got.header.Get(name))
					}
				}
			}
		})
	}
}

// The clients of all languages at a gateway.
func TestClientsAtGateway(t *testing.T) {
	t.Parallel()
	settings := newClientOf(t)
	csv := file(t, "leads.csv", "name,externalId\nGrace,g-1\nEdith,e-1\n")
	for language, call := range callers(settings) {
		t.Run(language, func(t *testing.T) {
			t.Parallel()
			text := func(answer, member string) string {
				t.Helper()
				var m members
				if err := json.Unmarshal([]byte(answer), &m); err != nil {
					t.Fatalf("%v in %s", err, answer)
				}
				return m.text(member)
			}
			body := `{"businessParam":{"name":"张 Ada","externalId":"` + language + `"}}`
			var ids [2]string
			for i := range ids {
				ok, answer := call(t, "POST", "/v1/leads", body, "Idempotency-Key: create-"+language)
				if !ok {
					t.Fatalf("create: %s", answer)
				}
				ids[i] = text(answer, "leadsId")
			}
			if ids[0] == "" || ids[0] != ids[1] {
				t.Errorf("the repeated create made %s after %s", ids[1], ids[0])
			}
			if ok, answer := call(t, "GET", "/v1/leads/"+ids[0], ""); !ok || text(answer, "name") != "张 Ada" {
				t.Errorf("read: %s", answer)
			}
			if ok, answer := call(t, "POST", "/v1/leads", body, "Idempotency-Key: other-"+language); ok || text(answer, "code") != "Conflict" {
				t.Errorf("create with another key: %s", answer)
			}
			ok, answer := call(t, "POST", "/v1/leads/imports?mode=upsert&dryRun=true", "@"+csv, "Content-Type: text/csv")
			if !ok || !strings.HasPrefix(text(answer, "id"), "imp_") {
				t.Errorf("import: %s", answer)
			}
		})
	}
}

// The clients stay short enough to be read.
func TestClientsAreShort(t *testing.T) {
	t.Parallel()
	for _, name := range []string{clientsDir + "waypost.py", clientsDir + "waypost.mjs", clientsDir + "waypost.sh", "../../client/client.go", "../../client/json.go"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if n := bytes.Count(text, []byte("\n")); n >= 60 {
			t.Errorf("%s has %d lines", name, n)
		}
	}
}
