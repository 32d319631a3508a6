package waypost_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"waypost"
)

type innerDoc struct {
	Deep string `json:"deep"`
}

type sampleDoc struct {
	Name    string           `json:"name"`
	Count   *int64           `json:"count"`
	Small   int8             `json:"small"`
	Ratio   float64          `json:"ratio"`
	On      bool             `json:"on"`
	List    []string         `json:"list"`
	Any     any              `json:"any"`
	Map     map[string]any   `json:"map"`
	Raw     json.RawMessage  `json:"raw"`
	Wait    waypost.Duration `json:"wait"`
	At      time.Time        `json:"at"`
	Inner   *innerDoc        `json:"inner"`
	Ignored string           `json:"-"`
	innerDoc
}

func TestDecodeJSON(t *testing.T) {
	t.Parallel()
	var got sampleDoc
	problems := waypost.DecodeJSON([]byte(` {"name":"ü😀","count":9007199254740993,"small":-128,"ratio":1e3,"on":true,"list":["a",""],
		"any":{"x":[1,null]},"map":{"k":null,"n":2.5},"raw":{ "as": "is" },"wait":"P1DT1S","at":"2026-01-31T12:00:00.5Z","inner":{"deep":"d"},"deep":"top"} `), &got)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	count := int64(9007199254740993)
	want := sampleDoc{
		Name: "ü😀", Count: &count, Small: -128, Ratio: 1000, On: true, List: []string{"a", ""},
		Any: map[string]any{"x": []any{1.0, nil}}, Map: map[string]any{"k": nil, "n": 2.5}, Raw: json.RawMessage(`{ "as": "is" }`),
		Wait: waypost.Duration(24*time.Hour + time.Second), At: time.Date(2026, 1, 31, 12, 0, 0, 5e8, time.UTC),
		Inner: &innerDoc{"d"}, innerDoc: innerDoc{"top"},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

// A null leaves what is there; so do members that are not written.
func TestDecodeJSONKeepsDefaults(t *testing.T) {
	t.Parallel()
	got := sampleDoc{Name: "default", On: true, List: []string{"a"}, Ratio: 2}
	if problems := waypost.DecodeJSON([]byte(`{"name":null,"on":null,"list":null,"inner":null}`), &got); len(problems) > 0 {
		t.Fatal(problems)
	}
	if got.Name != "default" || !got.On || len(got.List) != 1 || got.Ratio != 2 || got.Inner != nil {
		t.Errorf("got %+v", got)
	}
}

func TestDecodeJSONFaults(t *testing.T) {
	t.Parallel()
	for doc, want := range map[string][]string{
		``:                              {"InvalidFormat "},
		` `:                             {"InvalidFormat "},
		`{`:                             {"InvalidFormat "},
		`{"name":"a"`:                   {"InvalidFormat "},
		`{"name":"a",}`:                 {"InvalidFormat "},
		`{"name" "a"}`:                  {"InvalidFormat "},
		`{name:"a"}`:                    {"InvalidFormat "},
		`{"name":'a'}`:                  {"InvalidFormat "},
		`{"small":01}`:                  {"InvalidFormat "},
		`{"ratio":NaN}`:                 {"InvalidFormat "},
		"{\"name\":\"a\nb\"}":           {"InvalidFormat "},
		`{"name":"\ud800"}`:             {"InvalidFormat name"},
		`{"name":"a\uDC00b"}`:           {"InvalidFormat name"},
		`{"name":"\ude00\ud83d"}`:       {"InvalidFormat name"},
		`{"name":"\ud83d\ud83d\ude00"}`: {"InvalidFormat name"},
		`{"name":"\ud83d\u0041"}`:       {"InvalidFormat name"},
		`{"name":"\ud83dude00"}`:        {"InvalidFormat name"},
		`{"name":"\\\ud83d"}`:           {"InvalidFormat name"},
		`{"list":["\ud83d","\\ud83d","\ud83d\ude00","\ufffd"]}`: {"InvalidFormat list[0]"},
		`{"map":{"\udfff":1}}`:       {"InvalidFormat map.\ufffd"},
		`{"any":{"x":[1,"\ud800"]}}`: {"InvalidFormat any.x[1]"},
		`{"raw":{"x":"\ud800"}}`:     {"InvalidFormat raw.x"},
		`{"\ud800":1}`:               {"InvalidFormat \ufffd", "UnknownField \ufffd"},
		"{\"name\":\"\xff\"}":        {"InvalidFormat "},
		"\xef\xbb\xbf{}":             {"InvalidFormat "},
		`{} {}`:                      {"InvalidFormat "},
		`{}]`:                        {"InvalidFormat "},
		strings.Repeat("[", 10_000):  {"InvalidFormat "},
		`{"any":` + strings.Repeat("[", 40) + strings.Repeat("]", 40) + `}`: {"InvalidFormat "},
		`null`:                          {"InvalidType "},
		`[]`:                            {"InvalidType "},
		`"x"`:                           {"InvalidType "},
		`{"name":1}`:                    {"InvalidType name"},
		`{"name":{}}`:                   {"InvalidType name"},
		`{"count":"1"}`:                 {"InvalidType count"},
		`{"count":1.5}`:                 {"InvalidType count"},
		`{"count":1e2}`:                 {"InvalidType count"},
		`{"count":9223372036854775808}`: {"OutOfRange count"},
		`{"small":128}`:                 {"OutOfRange small"},
		`{"ratio":"x"}`:                 {"InvalidType ratio"},
		`{"ratio":1e999}`:               {"OutOfRange ratio"},
		`{"any":1e999}`:                 {"OutOfRange any"},
		`{"any":[{"x":1e999}]}`:         {"OutOfRange any"},
		`{"any":9007199254740993}`:      {"OutOfRange any"},
		`{"any":-9007199254740993}`:     {"OutOfRange any"},
		`{"any":9007199254740993.0}`:    {"OutOfRange any"},
		`{"any":9.007199254740993e15}`:  {"OutOfRange any"},
		`{"any":[{"x":12345678901234567890},9007199254740992,1e20,0.5]}`: {"OutOfRange any[0].x", "OutOfRange any[2]"},
		`{"map":{"a":9007199254740993}}`:                                 {"OutOfRange map.a"},
		`{"on":"true"}`:                                                  {"InvalidType on"},
		`{"on":0}`:                                                       {"InvalidType on"},
		`{"list":"a"}`:                                                   {"InvalidType list"},
		`{"list":["a",2,null]}`:                                          {"InvalidType list[1]", "NullValue list[2]"},
		`{"map":[]}`:                                                     {"InvalidType map"},
		`{"inner":[]}`:                                                   {"InvalidType inner"},
		`{"inner":{"deep":1,"x":2}}`:                                     {"InvalidType inner.deep", "UnknownField inner.x"},
		`{"wait":"soon"}`:                                                {"InvalidFormat wait"},
		`{"wait":5}`:                                                     {"InvalidType wait"},
		`{"at":"yesterday"}`:                                             {"InvalidFormat at"},
		`{"Name":"a"}`:                                                   {"UnknownField Name"},
		`{"ignored":"a","Ignored":"b"}`:                                  {"UnknownField ignored", "UnknownField Ignored"},
		`{"":1}`:                                                         {"UnknownField "},
		`{"name":"a","name":"a"}`:                                        {"Duplicate name"},
		`{"any":{"x":[{"y":1,"y":2}]}}`:                                  {"Duplicate any.x[0].y"},
		`{"na\u006de":"a","name":"b"}`:                                   {"Duplicate name"},
		`{"name":"a\u0000b"}`:                                            {"InvalidFormat name"},
		`{"map":{"a\u0000":1}}`:                                          {"InvalidFormat map.a\x00"},
		`{"name":1,"count":"x","nope":[],"list":[1],"list":[2]}`: {"Duplicate list", "InvalidType name", "InvalidType count", "UnknownField nope", "InvalidType list[0]", "InvalidType list[0]"},
	} {
		var v sampleDoc
		var got []string
		for _, d := range waypost.DecodeJSON([]byte(doc), &v) {
			got = append(got, fmt.Sprintf("%s %s", d.Code, d.Target))
			if d.Message == "" {
				t.Errorf("%.60s: no message", doc)
			}
		}
		if strings.Join(got, "; ") != strings.Join(want, "; ") {
			t.Errorf("%.60s:\n got %q\nwant %q", doc, got, want)
		}
	}
}

// A body full of faults costs little time and is answered with a bounded list.
func TestDecodeJSONIsBounded(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteByte('{')
	for i := range 99_000 {
		fmt.Fprintf(&b, `"%d":1,`, i)
	}
	b.WriteString(`"` + strings.Repeat("x", 1000) + `":1}`)
	began := time.Now()
	var v sampleDoc
	problems := waypost.DecodeJSON([]byte(b.String()), &v)
	if len(problems) != 100 {
		t.Errorf("%d problems, want the first 100", len(problems))
	}
	if took := time.Since(began); took > 20*time.Second { // quadratic: minutes
		t.Errorf("took %s", took)
	}
	problems = waypost.DecodeJSON([]byte(`{"`+strings.Repeat("ü", 1000)+`":1}`), &v)
	if len(problems) != 1 || len(problems[0].Target) > 80 {
		t.Errorf("a long name is repeated: %v", problems)
	}
}

func TestDecodeJSON_manyValues(t *testing.T) {
	t.Parallel()
	list := func(values int) []byte { return []byte(`{"any":[1` + strings.Repeat(",1", values-1) + `]}`) }
	var v sampleDoc
	if problems := waypost.DecodeJSON(list(99_998), &v); len(problems) > 0 { // and the object, and the list
		t.Error(problems)
	}
	for _, document := range [][]byte{list(99_999), list(500_000), []byte(`{"unknown":[[]` + strings.Repeat(",[]", 300_000) + `]}`)} {
		problems := waypost.DecodeJSON(document, &v)
		if len(problems) != 1 || problems[0].Message != "the body is not valid JSON: more than 100000 values" {
			t.Error(problems)
		}
	}
}

// busy counts how many of it are read at a time.
type busy struct{}

var reading, mostReading atomic.Int64

func (busy) UnmarshalJSON([]byte) error {
	n := reading.Add(1)
	for most := mostReading.Load(); n > most && !mostReading.CompareAndSwap(most, n); {
		most = mostReading.Load()
	}
	time.Sleep(time.Millisecond) // without a bound, the others come meanwhile
	reading.Add(-1)
	return nil
}

// However many large documents come together, the trees of few of them are in memory.
func TestDecodeJSON_atATime(t *testing.T) {
	t.Parallel()
	document := []byte(`{"b":{}` + strings.Repeat(" ", 5000) + `}`)
	var wg sync.WaitGroup
	for range 100 {
		wg.Go(func() {
			var v struct {
				B busy `json:"b"`
			}
			if problems := waypost.DecodeJSON(document, &v); len(problems) > 0 {
				t.Error(problems)
			}
		})
	}
	wg.Wait()
	if most := mostReading.Load(); most > int64(runtime.GOMAXPROCS(0)) {
		t.Errorf("%d at a time", most)
	}
}

func FuzzDecodeJSON(f *testing.F) {
	f.Add([]byte(`{"name":"a","count":1,"list":["a"],"map":{"k":null},"wait":"1s","inner":{"deep":"d"}}`))
	f.Add([]byte(`{"any":[[1e3,{"x":null}]],"any":2}`))
	f.Add([]byte(`{"raw":{"a":[]},"at":"2026-01-31T12:00:00Z"`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var got sampleDoc
		if problems := waypost.DecodeJSON(data, &got); len(problems) > 0 {
			return
		}
		// What is accepted, the standard library reads alike.
		var want sampleDoc
		if err := json.Unmarshal(data, &want); err != nil {
			t.Fatalf("accepted %q, which is: %v", data, err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("%q\n got %+v\nwant %+v", data, got, want)
		}
	})
}

func TestIsExact(t *testing.T) {
	t.Parallel()
	for number, want := range map[string]bool{
		"0": true, "-1.10": true, "1e3": true, "9007199254740992": true, "-9007199254740992": true, "9007199254740992.0": true,
		"9.007199254740992e15": true, "9007199254740992000e-3": true, "9007199254740991.7": true, "0.1": true, "1e-300": true,
		"9007199254740993": false, "-9007199254740993": false, "9007199254740993.0": false, "9.007199254740993e15": false,
		"9.007199254740993E+15": false, "9007199254740992.5": false, "-9007199254740992.000001": false, "9007199254740994": false,
		"1e16": false, "1e300": false, "1e999": false, "x": false, "": false,
		"9007199254740992." + strings.Repeat("0", 500): false,
	} {
		if got := waypost.IsExact(number); got != want {
			t.Errorf("%.40s: %v, want %v", number, got, want)
		}
	}
}

// A map whose tag ends with a dot takes the members whose names go on after it.
func TestDecodeJSONPrefix(t *testing.T) {
	t.Parallel()
	type doc struct {
		Name   string         `json:"name"`
		Custom map[string]any `json:"custom."`
	}
	var got doc
	problems := waypost.DecodeJSON([]byte(`{"custom.a":1,"name":"x","custom.b.c":"y","custom.null":null}`), &got)
	if want := (doc{"x", map[string]any{"a": 1.0, "b.c": "y", "null": nil}}); len(problems) > 0 || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v", got, problems)
	}
	problems = waypost.DecodeJSON([]byte(`{"custom.":{"a":1},"custom":1,"customs.a":1,".a":1,"custom.a":1,"custom.a":2,"custom.n":9007199254740993}`), &doc{})
	var targets []string
	for _, p := range problems {
		targets = append(targets, string(p.Code)+" "+p.Target)
	}
	if got, want := strings.Join(targets, "; "), "Duplicate custom.a; UnknownField custom.; UnknownField custom; UnknownField customs.a; UnknownField .a; OutOfRange custom.n"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
