package waypost

import (
	"bytes"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/big"
	"reflect"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"unicode/utf16"
	"unicode/utf8"
)

const (
	// maxJSONDepth bounds the nesting of JSON that we read.
	maxJSONDepth = 32
	// maxJSONValues bounds the values of a document, objects and arrays among them: the tree of one takes some
	// 200 bytes in memory. The largest definition of a journey has fewer.
	maxJSONValues = 100_000
	// smallJSON is how many bytes a document has at most that is read without waiting for others.
	smallJSON = 4 << 10
)

// largeJSON holds a place for each processor: a reader of a document that is larger than smallJSON takes one.
// The trees of documents that come together, from whomever, take no more memory so, and it costs no time.
var largeJSON = make(chan struct{}, runtime.GOMAXPROCS(0))

// DecodeJSON reads one JSON document into v (a pointer) by the rules of
// docs/contract.md, "Bodies": invalid UTF-8, half a surrogate pair, broken JSON, a wrong
// type, an unknown or a doubled member are problems that name the member, names are
// case-sensitive, and everything is reported at once. A null leaves its field unset. Fields
// are found by their json tags; a map whose tag ends with a dot takes the members whose
// names go on after it. The standard library's decoder does not do: it accepts
// doubled and wrongly cased members and stops at the first fault.
func DecodeJSON(data []byte, v any) Problems {
	_, p := decodeJSON(data, v)
	return p
}

// decodeJSON is DecodeJSON and returns the names of the document's members, null
// ones included.
func decodeJSON(data []byte, v any) (names []string, p Problems) {
	if !utf8.Valid(data) {
		p.Add(DetailInvalidFormat, "", "the body is not valid UTF-8")
		return nil, p
	}
	if len(data) > smallJSON {
		largeJSON <- struct{}{}
		defer func() { <-largeJSON }()
	}
	d := jsonReader{dec: json.NewDecoder(bytes.NewReader(data)), data: data}
	d.dec.UseNumber()
	root, err := d.value(&p, "", 0)
	if err == nil {
		if _, more := d.dec.Token(); !errors.Is(more, io.EOF) {
			err = errors.New("something follows the document")
		}
	}
	if err != nil {
		return nil, Problems{{Code: DetailInvalidFormat, Message: "the body is not valid JSON: " + err.Error()}}
	}
	if target := reflect.ValueOf(v).Elem(); root.token != nil || target.Kind() != reflect.Struct {
		root.assign(&p, "", target)
	} else {
		p.Add(DetailInvalidType, "", "must be an object, not null")
	}
	return root.names, p
}

// EncodeJSON writes a value without white space and without the escapes that only HTML
// needs.
func EncodeJSON(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

type jsonReader struct {
	dec    *json.Decoder
	data   []byte
	values int // that were read
}

type jsonNode struct {
	token   json.Token // the scalar, or the opening delimiter
	names   []string
	members []jsonNode // of an object (beside names) or an array
	raw     []byte
}

// value reads one value with all in it, at most maxJSONDepth deep and maxJSONValues in all. The error means that the document is
// no JSON; a name that stands twice and malformed text are added to p.
func (d *jsonReader) value(p *Problems, path string, depth int) (jsonNode, error) {
	before := d.dec.InputOffset()
	token, err := d.dec.Token()
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return jsonNode{}, err
	}
	if depth > maxJSONDepth {
		return jsonNode{}, fmt.Errorf("nested deeper than %d", maxJSONDepth)
	}
	if d.values++; d.values > maxJSONValues {
		return jsonNode{}, fmt.Errorf("more than %d values", maxJSONValues)
	}
	n := jsonNode{token: token}
	d.checkText(p, path, token, before)
	if delim, ok := token.(json.Delim); ok {
		seen := map[string]bool{}
		for d.dec.More() {
			var name string
			if delim == '[' {
				name = fmt.Sprintf("[%d]", len(n.members))
			} else {
				begin := d.dec.InputOffset()
				key, err := d.dec.Token()
				if err != nil {
					return n, err
				}
				name = key.(string)
				d.checkText(p, join(path, name), key, begin)
				if seen[name] {
					p.Add(DetailDuplicate, join(path, name), "the member stands twice")
				}
				seen[name] = true
				n.names = append(n.names, name)
			}
			member, err := d.value(p, join(path, name), depth+1)
			if err != nil {
				return n, err
			}
			n.members = append(n.members, member)
		}
		if _, err := d.dec.Token(); err != nil {
			return n, err
		}
	}
	n.raw = bytes.TrimLeft(d.data[before:d.dec.InputOffset()], " \t\r\n,:")
	return n, nil
}

// checkText refuses texts and names with U+0000, which PostgreSQL cannot store, and with
// half a surrogate pair, which the decoder replaces. begin is where it began to read.
func (d *jsonReader) checkText(p *Problems, path string, token json.Token, begin int64) {
	s, ok := token.(string)
	switch {
	case !ok:
	case strings.ContainsRune(s, 0):
		p.Add(DetailInvalidFormat, path, "must not contain the character U+0000")
	case strings.ContainsRune(s, utf8.RuneError) && hasHalfPair(d.data[begin:d.dec.InputOffset()]):
		p.Add(DetailInvalidFormat, path, `must not contain half a surrogate pair, such as \ud83d without \ude00: a character was cut in two`)
	}
}

// hasHalfPair tells whether valid JSON holds the escape of a surrogate without that of
// its other half.
func hasHalfPair(raw []byte) bool {
	escape := func(at int) rune {
		if at+6 > len(raw) || raw[at] != '\\' || raw[at+1] != 'u' {
			return 0
		}
		n, _ := strconv.ParseUint(string(raw[at+2:at+6]), 16, 16)
		return rune(n)
	}
	for i := 0; i < len(raw); i++ {
		if raw[i] != '\\' {
			continue
		}
		if r := escape(i); utf16.IsSurrogate(r) {
			if utf16.DecodeRune(r, escape(i+6)) == utf8.RuneError {
				return true
			}
			i += 6
		}
		i++ // what is escaped, such as a second backslash
	}
	return false
}

func join(path, name string) string {
	name = Clip(name, 64)
	if path == "" || strings.HasPrefix(name, "[") {
		return path + name
	}
	return path + "." + name
}

var (
	unmarshalerType     = reflect.TypeFor[json.Unmarshaler]()
	textUnmarshalerType = reflect.TypeFor[encoding.TextUnmarshaler]()
)

// assign sets v by the node and adds everything that does not fit to p. null leaves v as it is, and
// a name that v lacks is a fault.
func (n jsonNode) assign(p *Problems, path string, v reflect.Value) {
	if n.token == nil {
		return
	}
	if pt := v.Addr().Type(); pt.Implements(unmarshalerType) || pt.Implements(textUnmarshalerType) {
		if err := json.Unmarshal(n.raw, v.Addr().Interface()); err != nil {
			if wrong := (*json.UnmarshalTypeError)(nil); errors.As(err, &wrong) {
				p.Add(DetailInvalidType, path, "must be a string, not %s", n.kind())
				return
			}
			p.Add(DetailInvalidFormat, path, "%s", err)
		}
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		made := reflect.New(v.Type().Elem())
		n.assign(p, path, made.Elem())
		v.Set(made)
	case reflect.Struct:
		if n.token != json.Delim('{') {
			p.Add(DetailInvalidType, path, "must be an object, not %s", n.kind())
			return
		}
		fields := fieldsOf(v.Type())
		for i, name := range n.names {
			at := join(path, name)
			if index, ok := fields[name]; ok && !strings.HasSuffix(name, ".") {
				n.members[i].assign(p, at, v.FieldByIndex(index))
			} else if prefix, rest, _ := strings.Cut(name, "."); fields[prefix+"."] != nil && rest != "" {
				n.members[i].put(p, at, rest, v.FieldByIndex(fields[prefix+"."]))
			} else {
				p.Add(DetailUnknownField, at, "there is no member of this name")
			}
		}
	case reflect.Slice:
		if n.token != json.Delim('[') {
			p.Add(DetailInvalidType, path, "must be an array, not %s", n.kind())
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), len(n.members), len(n.members)))
		for i, member := range n.members {
			at := fmt.Sprintf("%s[%d]", path, i)
			if member.token == nil {
				p.Add(DetailNullValue, at, "must not be null")
			}
			member.assign(p, at, v.Index(i))
		}
	case reflect.Map:
		if n.token != json.Delim('{') {
			p.Add(DetailInvalidType, path, "must be an object, not %s", n.kind())
			return
		}
		v.Set(reflect.MakeMapWithSize(v.Type(), len(n.members)))
		for i, member := range n.members {
			member.put(p, join(path, n.names[i]), n.names[i], v)
		}
	default:
		n.scalar(p, path, v)
	}
}

// put assigns the value to a key of a map, which it makes if there is none.
func (n jsonNode) put(p *Problems, path, key string, m reflect.Value) {
	if m.IsNil() {
		m.Set(reflect.MakeMap(m.Type()))
	}
	made := reflect.New(m.Type().Elem()).Elem()
	n.assign(p, path, made)
	m.SetMapIndex(reflect.ValueOf(key), made)
}

// scalar sets a text, a number, a boolean or an interface. In an interface, a number that would lose
// digits is a fault.
func (n jsonNode) scalar(p *Problems, path string, v reflect.Value) {
	if s, ok := n.token.(string); ok && v.Kind() == reflect.String { // most are
		v.SetString(s)
		return
	}
	err := json.Unmarshal(n.raw, v.Addr().Interface())
	if err == nil {
		if v.Kind() == reflect.Interface {
			n.checkExact(p, path)
		}
		return
	}
	want := "a " + v.Kind().String()
	switch {
	case v.CanInt() || v.CanUint():
		want = "an integer"
		if _, isNumber := n.token.(json.Number); isNumber && !strings.ContainsAny(string(n.raw), ".eE") {
			p.Add(DetailOutOfRange, path, "is too large or too small")
			return
		}
	case v.CanFloat(), v.Kind() == reflect.Interface:
		// Anything fits an interface but a number that no float64 can hold.
		want = "a number"
		if _, isNumber := n.token.(json.Number); isNumber || v.Kind() == reflect.Interface {
			p.Add(DetailOutOfRange, path, "holds a number that is too large")
			return
		}
	case v.Kind() == reflect.Bool:
		want = "true or false"
	}
	p.Add(DetailInvalidType, path, "must be %s, not %s", want, n.kind())
}

// checkExact refuses numbers that would not stay what they are: a number without a
// type of its own becomes a float64.
func (n jsonNode) checkExact(p *Problems, path string) {
	if number, ok := n.token.(json.Number); ok {
		CheckExact(p, path, number)
	}
	for i, member := range n.members {
		name := fmt.Sprintf("[%d]", i)
		if n.token == json.Delim('{') {
			name = n.names[i]
		}
		member.checkExact(p, join(path, name))
	}
}

// inexact is what is said of a number that is not exact in a float64.
const inexact = "must be a number between -2^53 and 2^53; send a longer one as a string"

// CheckExact refuses a number that is not exact, see IsExact.
func CheckExact(p *Problems, path string, number json.Number) {
	if !IsExact(string(number)) {
		p.Add(DetailOutOfRange, path, inexact)
	}
}

// IsExact tells whether a number, as JSON writes it, lies between -2^53 and 2^53: a
// float64 holds every whole number of that range, and of those beyond it takes one for
// another, whichever way they are written.
func IsExact(number string) bool {
	f, err := strconv.ParseFloat(number, 64)
	if err != nil || math.Abs(f) != maxExactNumber {
		return err == nil && math.Abs(f) < maxExactNumber
	}
	if len(number) > maxNearLimit {
		return false
	}
	written, _, err := big.ParseFloat(number, 10, 64, big.AwayFromZero) // f may have been rounded down to 2^53
	return err == nil && written.Abs(written).Cmp(big.NewFloat(maxExactNumber)) <= 0
}

// maxNearLimit bounds the digits that IsExact looks at of a number that is nearly 2^53.
const maxNearLimit = 400

func (n jsonNode) kind() string {
	switch t := n.token.(type) {
	case json.Delim:
		if t == '{' {
			return "an object"
		}
		return "an array"
	case string:
		return "a string"
	case bool:
		return "a boolean"
	case json.Number:
		// Not the number itself: it may be a phone number, and the errors of an
		// import's rows are stored.
		if strings.ContainsAny(string(t), ".eE") {
			return "a number with a fraction or an exponent"
		}
		return "a number"
	}
	return "null"
}

var fieldCache sync.Map // reflect.Type → map[string][]int

// fieldsOf maps a struct's json names to its fields, those of embedded structs
// included.
func fieldsOf(t reflect.Type) map[string][]int {
	if known, ok := fieldCache.Load(t); ok {
		return known.(map[string][]int)
	}
	fields := map[string][]int{}
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.IsExported() && name != "" && name != "-" {
			fields[name] = f.Index
		}
	}
	fieldCache.Store(t, fields)
	return fields
}
