package typesense

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// standIn is a server that answers as the recordings of a Typesense 29 do
// (TestStandInAnswersAsRecorded): it keeps collections, aliases and a log of writes, and
// searches with all that makes the engine different from the rule. It is asked for the
// parameters that the package sends, and for those of the recordings.
type standIn struct {
	*httptest.Server
	mu          sync.Mutex
	collections map[string]*shelf
	aliases     map[string]string
	log         []write
	snapshot    int     // how many writes of the log the snapshot has
	pending     []write // that are not replayed yet
	queued      int
	ready       bool
}

// write is a request that changes something.
type write struct{ method, path, query, body string }

// shelf is a collection.
type shelf struct {
	schema map[string]any
	fields map[string]string // types of those that are indexed, by name
	seq    int
	docs   map[string]*shelved
	tokens map[string]map[string]map[*shelved]bool // by field
}

// shelved is a document of a collection.
type shelved struct {
	seq    int
	id     string
	values map[string]any
	tokens map[string][]string // by field, in their order
}

func startStandIn(t testing.TB) *standIn {
	t.Helper()
	s := &standIn{collections: map[string]*shelf{}, aliases: map[string]string{}, ready: true}
	s.Server = httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(s.Close)
	return s
}

// takeSnapshot has a restart begin with what is there now.
func (s *standIn) takeSnapshot() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.snapshot = len(s.log)
}

// restart has the server forget what it did since its snapshot, until it is replayed.
func (s *standIn) restart() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.collections, s.aliases = map[string]*shelf{}, map[string]string{}
	for _, w := range s.log[:s.snapshot] {
		s.apply(w)
	}
	s.pending, s.queued = s.log[s.snapshot:], 0
}

// replay does one write of the log, and tells whether there was one.
func (s *standIn) replay() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.pending) == 0 {
		return false
	}
	s.apply(s.pending[0])
	s.pending = s.pending[1:]
	s.queued = len(s.pending) % 3 // which says nothing: 0 in the midst of it, as j02 has it
	return true
}

func (s *standIn) serve(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	s.mu.Lock()
	defer s.mu.Unlock()
	request := write{r.Method, r.URL.EscapedPath(), r.URL.RawQuery, string(body)}
	status, answer := 0, ""
	switch {
	case request.path == "/status":
		status, answer = 200, fmt.Sprintf(`{"committed_index":7,"queued_writes":%d,"state":"LEADER"}`, s.queued)
	case request.path == "/health":
		status, answer = 200, `{"ok":true}`
	case request.method == http.MethodGet:
		status, answer = s.get(request)
	case request.path == "/multi_search":
		status, answer = s.multiSearch(request.body)
	default:
		s.log = append(s.log, request)
		status, answer = s.apply(request)
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, answer)
}

func said(status int, message string) (int, string) {
	text, _ := json.Marshal(map[string]string{"message": message})
	return status, string(text)
}

func asJSON(status int, v any) (int, string) {
	text, _ := json.Marshal(v)
	return status, string(text)
}

// split takes a path apart: /collections/NAME/documents/ID.
func split(path string) [4]string {
	var parts [4]string
	copy(parts[:], strings.SplitN(strings.TrimPrefix(path, "/"), "/", 4))
	for i := range parts {
		parts[i], _ = url.PathUnescape(parts[i])
	}
	return parts
}

// named is a collection by its name or by an alias.
func (s *standIn) named(name string) *shelf {
	if c := s.collections[name]; c != nil {
		return c
	}
	return s.collections[s.aliases[name]]
}

func (s *standIn) get(r write) (int, string) {
	parts := split(r.path)
	switch c := s.named(parts[1]); {
	case parts[0] == "aliases":
		if target, ok := s.aliases[parts[1]]; ok {
			return asJSON(200, map[string]string{"name": parts[1], "collection_name": target})
		}
		return said(404, "Collection not found")
	case parts[0] == "collections" && parts[1] == "":
		all := []any{}
		for _, name := range slices.Sorted(maps.Keys(s.collections)) {
			all = append(all, s.collections[name].schema)
		}
		return asJSON(200, all)
	case parts[0] != "collections":
		return said(404, "Not Found")
	case c == nil:
		return said(404, "Collection not found")
	case parts[2] == "":
		return asJSON(200, c.schema)
	case parts[3] == "search":
		values, _ := url.ParseQuery(r.query)
		parameters := map[string]string{}
		for name := range values {
			parameters[name] = values.Get(name)
		}
		if len(r.query) > maxQueryString {
			return said(400, "Query string exceeds max allowed length of 4000. Use the /multi_search end-point for larger payloads.")
		}
		return c.search(parameters)
	}
	if d := s.named(parts[1]).docs[parts[3]]; d != nil {
		return asJSON(200, d.values)
	}
	return said(404, "Could not find a document with id: "+parts[3])
}

func (s *standIn) multiSearch(body string) (int, string) {
	var asked struct{ Searches []map[string]any }
	_ = json.Unmarshal([]byte(body), &asked)
	var results []json.RawMessage
	for _, search := range asked.Searches {
		parameters := map[string]string{}
		for name, value := range search {
			parameters[name] = fmt.Sprint(value)
		}
		status, answer := said(404, "Not found.")
		if c := s.named(parameters["collection"]); c != nil {
			status, answer = c.search(parameters)
		}
		if status != 200 {
			_, answer = asJSON(200, map[string]any{"code": status, "error": message([]byte(answer))})
		}
		results = append(results, json.RawMessage(answer))
	}
	return asJSON(200, map[string]any{"results": results})
}

// apply does a write.
func (s *standIn) apply(r write) (int, string) {
	parts := split(r.path)
	c := s.named(parts[1])
	switch {
	case parts[0] == "aliases":
		var alias map[string]string
		_ = json.Unmarshal([]byte(r.body), &alias)
		if r.method == http.MethodDelete {
			delete(s.aliases, parts[1])
		} else {
			s.aliases[parts[1]] = alias["collection_name"]
		}
		return asJSON(200, map[string]string{"name": parts[1], "collection_name": s.aliases[parts[1]]})
	case r.method == http.MethodPost && parts[1] == "":
		c := newShelf(r.body)
		name := c.schema["name"].(string)
		if s.collections[name] != nil {
			return said(409, "A collection with name `"+name+"` already exists.")
		}
		s.collections[name] = c
		return asJSON(201, c.schema)
	case c == nil:
		return said(404, "Collection not found")
	case r.method == http.MethodDelete && parts[2] == "":
		delete(s.collections, c.schema["name"].(string))
		return asJSON(200, c.schema)
	case r.method == http.MethodDelete:
		d := c.docs[parts[3]]
		if d == nil {
			return said(404, "Could not find a document with id: "+parts[3])
		}
		c.remove(d)
		return asJSON(200, d.values)
	}
	var lines strings.Builder
	for line := range strings.Lines(r.body) {
		lines.WriteString(c.put(line) + "\n")
	}
	return 200, strings.TrimSuffix(lines.String(), "\n")
}

func newShelf(body string) *shelf {
	c := &shelf{fields: map[string]string{}, docs: map[string]*shelved{}, tokens: map[string]map[string]map[*shelved]bool{}}
	_ = json.Unmarshal([]byte(body), &c.schema)
	for _, f := range c.schema["fields"].([]any) {
		field := f.(map[string]any)
		if indexed, ok := field["index"].(bool); ok && !indexed {
			continue
		}
		name := field["name"].(string)
		c.fields[name], c.tokens[name] = field["type"].(string), map[string]map[*shelved]bool{}
	}
	return c
}

// put upserts a document, and answers as an import does for its line.
func (c *shelf) put(line string) string {
	var values map[string]any
	if err := json.Unmarshal([]byte(line), &values); err != nil {
		return `{"success":false,"code":400,"error":"Bad JSON."}`
	}
	for name, kind := range c.fields {
		var right bool
		switch kind {
		case "string":
			_, right = values[name].(string)
		case "int32", "int64":
			_, right = values[name].(float64)
		case "bool":
			_, right = values[name].(bool)
		case "string[]":
			_, right = values[name].([]any)
		}
		if !right {
			_, text := asJSON(400, map[string]any{"success": false, "code": 400, "error": "Field `" + name + "` must be a " + kind + "."})
			return text
		}
	}
	id, _ := values["id"].(string)
	d := &shelved{seq: c.seq, id: id, values: values, tokens: map[string][]string{}}
	c.seq++
	if old := c.docs[id]; old != nil {
		d.seq = old.seq
		c.remove(old)
	}
	c.docs[id] = d
	for name, kind := range c.fields {
		if kind != "string" {
			continue
		}
		d.tokens[name] = tokens(values[name].(string))
		for _, token := range d.tokens[name] {
			if c.tokens[name][token] == nil {
				c.tokens[name][token] = map[*shelved]bool{}
			}
			c.tokens[name][token][d] = true
		}
	}
	return `{"success":true}`
}

func (c *shelf) remove(d *shelved) {
	delete(c.docs, d.id)
	for name, all := range d.tokens {
		for _, token := range all {
			if delete(c.tokens[name][token], d); len(c.tokens[name][token]) == 0 {
				delete(c.tokens[name], token)
			}
		}
	}
}

// cutAt is the length at which the server cuts a token, in bytes.
const cutAt = 100

// tokens cuts a text as the server's tokenizer does for fields without a locale, with the
// signs + and # and the separators of the schema: characters that have a form in ASCII are
// written in it, and of this only letters and digits stay.
func tokens(text string) []string {
	var all []string
	var token strings.Builder
	end := func() {
		if token.Len() > 0 {
			all = append(all, token.String()[:min(token.Len(), cutAt)])
		}
		token.Reset()
	}
	for _, r := range text {
		switch {
		case 'a' <= r && r <= 'z', '0' <= r && r <= '9', r == '+', r == '#':
			token.WriteRune(r)
		case 'A' <= r && r <= 'Z':
			token.WriteRune(r + 'a' - 'A')
		case r < 0x80:
			if r == ' ' || r == '\n' || strings.ContainsRune(separators, r) {
				end()
			}
		default:
			ascii, known := transliterated[r]
			if !known {
				token.WriteRune(r)
			}
			token.WriteString(ascii)
		}
	}
	end()
	return all
}

// transliterated are letters and digits of the forms in ASCII that iconv has, of those
// characters that recordings or texts of tests hold.
var transliterated = func() map[rune]string {
	table := map[rune]string{
		'€': "eur", '©': "c", '®': "r", '×': "x", '™': "tm", '→': "", '←': "", '±': "", '≤': "", '≥': "", '−': "", '│': "", '─': "",
		'…': "", '—': "", '–': "", '‘': "", '’': "", '“': "", '”': "", '«': "", '»': "", '\u00A0': "", '\u3000': "",
		'ß': "ss", 'ẞ': "ss", 'æ': "ae", 'Æ': "ae", 'œ': "oe", 'Œ': "oe", 'ø': "o", 'Ø': "o", 'ł': "l", 'Ł': "l", 'đ': "d", 'Đ': "d",
		'ﬁ': "fi", 'ﬂ': "fl", '¥': "yen", '℃': "c", '№': "no", '½': "12", '²': "2",
	}
	for base, accented := range map[string]string{
		"a": "àáâãäåāăąÀÁÂÃÄÅĀĂĄ", "c": "çćĉċčÇĆĈĊČ", "d": "ďĎ", "e": "èéêëēĕėęěÈÉÊËĒĔĖĘĚ", "g": "ĝğġģĜĞĠĢ", "h": "ĥĤ",
		"i": "ìíîïĩīĭįÌÍÎÏĨĪĬĮİ", "j": "ĵĴ", "k": "ķĶ", "l": "ĺļľĹĻĽ", "n": "ñńņňÑŃŅŇ", "o": "òóôõöōŏőÒÓÔÕÖŌŎŐ", "r": "ŕŗřŔŖŘ",
		"s": "śŝşšŚŜŞŠ", "t": "ţťŢŤ", "u": "ùúûüũūŭůűųÙÚÛÜŨŪŬŮŰŲ", "w": "ŵŴ", "y": "ýÿŷÝŶŸ", "z": "źżžŹŻŽ",
	} {
		for _, r := range accented {
			table[r] = base
		}
	}
	for r := rune('！'); r <= '～'; r++ {
		if ascii := r - '！' + '!'; ascii >= '0' && ascii <= '9' || ascii >= 'a' && ascii <= 'z' {
			table[r] = string(ascii)
		} else if ascii >= 'A' && ascii <= 'Z' {
			table[r] = string(ascii + 'a' - 'A')
		} else {
			table[r] = ""
		}
	}
	return table
}()

func number(parameters map[string]string, name string, otherwise int) int {
	if n, err := strconv.Atoi(parameters[name]); err == nil {
		return n
	}
	return otherwise
}
