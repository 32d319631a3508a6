package waypost_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"waypost"
)

func ptr[T any](v T) *T { return &v }

var noon = time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)

func TestLeadValidate(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		fields waypost.LeadFields
		want   string
	}{
		{"only a name", waypost.LeadFields{Name: "Ada"}, ""},
		{"no name", waypost.LeadFields{}, "NullValue name"},
		{"blank name", waypost.LeadFields{Name: " \u3000\t"}, "NullValue name"},
		{"longest name", waypost.LeadFields{Name: strings.Repeat("名", 128)}, ""},
		{"too long a name", waypost.LeadFields{Name: strings.Repeat("n", 129)}, "TooLong name"},
		{"line break in a name", waypost.LeadFields{Name: "a\nb"}, "InvalidFormat name"},
		{"lines in remark and address", waypost.LeadFields{Name: "a", Remark: ptr("a\r\n\tb"), Address: ptr("a\nb")}, ""},
		{"control characters", waypost.LeadFields{Name: "a", Remark: ptr("a\x01"), Company: ptr("\x7f"), QQ: ptr("1\n2")}, "InvalidFormat remark; InvalidFormat qq; InvalidFormat company"},
		{"long texts", waypost.LeadFields{Name: "a", Address: ptr(strings.Repeat("a", 4097)), Telephone: ptr(strings.Repeat("1", 65)), Company: ptr(strings.Repeat("c", 257))},
			"TooLong address; TooLong telephone; TooLong company"},
		{"gender", waypost.LeadFields{Name: "a", Gender: ptr(int64(2))}, ""},
		{"gender 3", waypost.LeadFields{Name: "a", Gender: ptr(int64(3))}, "OutOfRange gender"},
		{"gender -1", waypost.LeadFields{Name: "a", Gender: ptr(int64(-1))}, "OutOfRange gender"},
		{"leap day", waypost.LeadFields{Name: "a", Birthday: ptr("2000-02-29")}, ""},
		{"no leap day", waypost.LeadFields{Name: "a", Birthday: ptr("1900-02-29")}, "InvalidFormat birthday"},
		{"odd date", waypost.LeadFields{Name: "a", Birthday: ptr("2000-1-2")}, "InvalidFormat birthday"},
		{"date and time", waypost.LeadFields{Name: "a", Birthday: ptr("2000-01-02T00:00:00Z")}, "InvalidFormat birthday"},
		{"empty date", waypost.LeadFields{Name: "a", Birthday: ptr("")}, "InvalidFormat birthday"},
		{"a day without a year", waypost.LeadFields{Name: "a", Birthday: ptr("--02-29")}, ""},
		{"no day of any year", waypost.LeadFields{Name: "a", Birthday: ptr("--02-30")}, "InvalidFormat birthday"},
		{"day or month first", waypost.LeadFields{Name: "a", Birthday: ptr("01/02/1990")}, "InvalidFormat birthday"},
		{"year 0", waypost.LeadFields{Name: "a", Birthday: ptr("0000-01-01")}, "InvalidFormat birthday"},
		{"blank keys", waypost.LeadFields{Name: "a", ExternalID: ptr(""), OpenID: ptr(" ")}, "InvalidFormat externalId; InvalidFormat openId"},
		{"long keys", waypost.LeadFields{Name: "a", ExternalID: ptr(strings.Repeat("e", 129)), OpenID: ptr(strings.Repeat("o", 128))}, "TooLong externalId"},
		{"custom fields", waypost.LeadFields{Name: "a", CustomFields: map[string]any{"s": "x", "n": -1.5, "b": false, "big": float64(1 << 53)}}, ""},
		{"custom fields that are none", waypost.LeadFields{Name: "a", CustomFields: map[string]any{"a": []any{}, "b": map[string]any{}, "c": math.Pow(2, 54), "": 1.0, strings.Repeat("k", 65): 1.0, "l": strings.Repeat("x", 1025)}},
			"InvalidFormat customFields.; InvalidType customFields.a; InvalidType customFields.b; OutOfRange customFields.c; InvalidFormat customFields." + strings.Repeat("k", 64) + "…; TooLong customFields.l"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			_, err := tc.fields.Validate("CN", noon)
			if got := detailsOf(t, err); got != tc.want {
				t.Errorf("%q, want %q", got, tc.want)
			}
			var e *waypost.Error
			if errors.As(err, &e) && e.Target != "businessParam" {
				t.Errorf("target %q", e.Target)
			}
		})
	}
}

func TestLeadAddresses(t *testing.T) {
	t.Parallel()
	for address, ok := range map[string]bool{
		"a@example.com": true, "first.last+tag@sub.example.co": true, "张三@例子.中国": true, "o'brien@example.com": true,
		"": false, "a": false, "a@": false, "@example.com": false, "a b@example.com": false, "Ada <a@example.com>": false, "<a@example.com>": false,
		"a@example.com, b@example.com": false, "a@@example.com": false, "\"a b\"@example.com": false, "a@[127.0.0.1]": false,
		strings.Repeat("a", 250) + "@b.co": false,
	} {
		f := waypost.LeadFields{Name: "a", Email: &address, CompanyEmail: &address}
		if _, err := f.Validate("CN", noon); (err == nil) != ok {
			t.Errorf("e-mail %q: %v", address, err)
		}
	}
	for address, ok := range map[string]bool{
		"https://example.com": true, "http://example.com:8080/a?b=c#d": true, "www.example.com": true, "example.com/path": true, "例子.中国": true,
		"": false, "example": false, "ftp://example.com": false, "javascript://example.com/%0aalert(1)": false, "https://": false, "https://u:p@example.com": false,
		"two words.com": false, "https://example.com/<script>": false, "http://.": false, "https://exa mple.com": false,
	} {
		f := waypost.LeadFields{Name: "a", CompanyWebsite: &address}
		if _, err := f.Validate("CN", noon); (err == nil) != ok {
			t.Errorf("web address %q: %v", address, err)
		}
	}
}

func TestLeadPhones(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		region string
		in     []string
		want   []string
		faults string
	}{
		{"CN", nil, []string{}, ""},
		{"CN", []string{"138 0000-0000", "+8613800000000", "0086 138 0000 0000"}, []string{"+8613800000000"}, ""},
		{"CN", []string{"+1 (202) 456-1111", "13900000000"}, []string{"+12024561111", "+8613900000000"}, ""},
		{"US", []string{"202-456-1111"}, []string{"+12024561111"}, ""},
		{"CN", []string{"1", "", "abc", "+8613800000000000", "13800000000"}, nil, "InvalidFormat mobilePhone[0]; InvalidFormat mobilePhone[1]; InvalidFormat mobilePhone[2]; InvalidFormat mobilePhone[3]"},
		{"CN", []string{"13800000000;ext=1", "13800000000;13900000000", "13800000000"}, nil, "InvalidFormat mobilePhone[0]; InvalidFormat mobilePhone[1]"},
		{"CN", []string{strings.Repeat("1", 65), "1\n3800000000"}, nil, "TooLong mobilePhone[0]; InvalidFormat mobilePhone[1]"},
		{"CN", []string{"（010）62345678", "１３８００００００００", "١٣٩٠٠٠٠٠٠٠٠", "0086-137.0000.0000", "+86 (0)136 0000 0000"},
			[]string{"+861062345678", "+8613800000000", "+8613900000000", "+8613700000000", "+8613600000000"}, ""},
		{"DE", []string{"0711/123456", "+49 (0)711 123457"}, []string{"+49711123456", "+49711123457"}, ""},
		{"CN", slices.Repeat([]string{"13800000000"}, 10), []string{"+8613800000000"}, ""},
		{"CN", slices.Repeat([]string{"13800000000"}, 11), nil, "OutOfRange mobilePhone"},
	} {
		f := waypost.LeadFields{Name: "a", MobilePhone: slices.Clone(tc.in)}
		got, err := f.Validate(tc.region, noon)
		if faults := detailsOf(t, err); faults != tc.faults {
			t.Errorf("%q: %q, want %q", tc.in, faults, tc.faults)
		}
		if !slices.Equal(got, tc.want) || (got == nil) != (tc.want == nil) {
			t.Errorf("%q: %#v, want %#v", tc.in, got, tc.want)
		}
		if !slices.Equal(f.MobilePhone, tc.in) {
			t.Errorf("the numbers as sent were changed: %q", f.MobilePhone)
		}
	}
}

// Each cause has a text of its own, which repeats nothing of the number.
func TestLeadPhoneFaults(t *testing.T) {
	t.Parallel()
	const abroad = "; write a number from abroad with + and its country code"
	for raw, want := range map[string]string{
		"\u202d\u202c":              "is blank",
		" ，":                        "is blank",
		"abc":                       "is no phone number: it has no digits",
		"+":                         "is no phone number: it has no digits",
		"1":                         "has too few digits",
		"+86":                       "has too few digits",
		"0086":                      "has too few digits",
		"1380013800":                "has too few digits for a number of +86, such as 13123456789" + abroad,
		"+86 1380013800":            "has too few digits for a number of +86, such as 13123456789",
		"138001380001":              "has too many digits for a number of +86, such as 13123456789" + abroad,
		"13800138000 13900139000":   "has too many digits",
		"12345678901":               "begins like no number of +86; one is 13123456789" + abroad,
		"+999 1234567":              "begins with a country code that there is not",
		"+800 1234567":              "is no number of +800",
		"138&0013":                  "holds signs that no phone number has; write its digits alone",
		"+861380013800a":            "holds letters; write its digits alone",
		"13800138000（张三）":           "holds letters; write its digits alone",
		"1-800-FLOWERS":             "holds letters; write its digits alone",
		"1.38E+10":                  "was shortened by a spreadsheet, as 1.38E+10 is; make its column text there",
		"13800138000;13900139000":   "holds several numbers; make each an element of its own",
		"13800138000、13900139000":   "holds several numbers; make each an element of its own",
		"13800138000，123":           "holds several numbers; make each an element of its own",
		"13800138000 / 13900139000": "holds several numbers; make each an element of its own",
		"13800138000 ext. 5":        extension,
		"13800138000x5":             extension,
		"13800138000#5":             extension,
		"13800138000,5":             extension,
		"13800138000;ext=5":         extension,
		"010-62345678转123":          extension,
		"010-62345678 分机 123":       extension,
		"+44 20 7946 0018 extn 12":  extension,
	} {
		f := waypost.LeadFields{Name: "a", MobilePhone: []string{raw}}
		_, err := f.Validate("CN", noon)
		var e *waypost.Error
		if !errors.As(err, &e) || len(e.Details) != 1 || e.Details[0].Message != want {
			t.Errorf("%q: %v, want %s", raw, err, want)
		}
	}
}

const extension = "has an extension; leave it out, as two numbers that differ in it alone are one phone"

func TestSplitPhones(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		region, text string
		want         []string
	}{
		{"CN", "", nil},
		{"CN", " ;，\u200b\n", nil},
		{"CN", "13800138000", []string{"13800138000"}},
		{"CN", "1;2、3；4，5,6\r\n7", []string{"1", "2", "3", "4", "5", "6", "7"}},
		{"CN", "13800138000/13900139000", []string{"13800138000", "13900139000"}},
		{"CN", "13800138000/139", []string{"13800138000", "139"}},
		{"CN", "0711/123456", []string{"0711", "123456"}},
		{"DE", "0711/123456", []string{"0711/123456"}},
		{"DE", "0711/123456;0711/123457", []string{"0711/123456", "0711/123457"}},
		{"CN", "021/62345678；13800138000", []string{"021/62345678", "13800138000"}},
	} {
		if got := waypost.SplitPhones(tc.text, tc.region); !slices.Equal(got, tc.want) {
			t.Errorf("%s %q: %q, want %q", tc.region, tc.text, got, tc.want)
		}
	}
}

// What nobody sees is not stored, but for what changes how a name looks.
func TestLeadInvisibleCharacters(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ in, name, key string }{
		{"a b", "a b", "a b"},
		{" \t张三\u3000\r\n", "张三", "张三"},
		{"张\u3000三", "张\u3000三", "张\u3000三"},
		{"\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069a", "a", "a"},
		{"\u200b\u200c\u200d\u200e\u200f\u2060\ufeff\u00ad\u034f\u061c\u180e\u3164\uffa0a", "a", "a"},
		{"A\u00a0B\u2009C\u202fD\u2028E", "A B C D E", "A B C D E"},
		{"Ada\u200dLove\u200clace\ufe0f", "AdaLovelace", "AdaLovelace"},
		{"张\u200d三", "张三", "张三"},
		{"👩\u200d💻", "👩\u200d💻", "👩💻"},
		{"❤\ufe0f\u200d🔥", "❤\ufe0f\u200d🔥", "❤🔥"},
		{"👍🏽\u200d", "👍🏽", "👍🏽"},
		{"1\ufe0f\u20e3", "1\ufe0f\u20e3", "1\u20e3"},
		{"🏴\U000e0067\U000e0062\U000e007f\U000e0067", "🏴\U000e0067\U000e0062\U000e007f", "🏴"},
		{"می\u200cخواهم\u200c", "می\u200cخواهم", "میخواهم"},
		{"क्\u200dष", "क्\u200dष", "क्ष"},
		{"葛\U000e0100城", "葛\U000e0100城", "葛城"},
		{"\u0600\ufff9", "\u0600\ufff9", "\u0600\ufff9"}, // seen
	} {
		f := waypost.LeadFields{Name: tc.in, Company: ptr(tc.in), ExternalID: ptr(tc.in), OpenID: ptr(tc.in), Wechat: ptr(tc.in), Telephone: ptr(tc.in), Remark: ptr(tc.in)}
		given := f
		_, _ = f.Validate("CN", noon)
		for _, got := range []string{f.Name, *f.Company} {
			if got != tc.name {
				t.Errorf("%+q: name %+q, want %+q", tc.in, got, tc.name)
			}
		}
		for _, got := range []string{*f.ExternalID, *f.OpenID, *f.Wechat, *f.Telephone} {
			if got != tc.key {
				t.Errorf("%+q: key %+q, want %+q", tc.in, got, tc.key)
			}
		}
		if *f.Remark != tc.in || *given.ExternalID != tc.in {
			t.Errorf("%+q: the remark, or the value that was given, changed", tc.in)
		}
	}
	f := waypost.LeadFields{Name: "\u200b\u2060", ExternalID: ptr("\ufeff "), Email: ptr("\u200b")}
	if _, err := f.Validate("CN", noon); detailsOf(t, err) != "NullValue name; InvalidFormat externalId; InvalidFormat email" {
		t.Error(err)
	}
	f = waypost.LeadFields{Name: "a", Email: ptr(" a\u200b@example.com\n"), CompanyEmail: ptr("b@example.com\u00a0"), Birthday: ptr("\u200e1990-12-31 "), CompanyWebsite: ptr("example.com\u200b")}
	if _, err := f.Validate("CN", noon); err != nil || *f.Email != "a@example.com" || *f.CompanyEmail != "b@example.com" || *f.Birthday != "1990-12-31" || *f.CompanyWebsite != "example.com" {
		t.Errorf("%v, %q", err, *f.Email)
	}
}

// A birthday is in the future only if its day has begun nowhere on Earth.
func TestLeadBirthdayInTheFuture(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		birthday string
		now      time.Time
		ok       bool
	}{
		{"2026-01-31", noon, true},
		{"2026-02-01", noon, true},
		{"2026-02-01", time.Date(2026, 1, 31, 9, 59, 59, 0, time.UTC), false},
		{"2026-02-01", time.Date(2026, 1, 31, 10, 0, 0, 0, time.UTC), true},
		{"2026-02-01", time.Date(2026, 1, 31, 18, 0, 0, 0, time.FixedZone("", 8*3600)), true},
		{"2026-02-02", noon, false},
		{"9999-12-31", noon, false},
	} {
		f := waypost.LeadFields{Name: "a", Birthday: &tc.birthday}
		_, err := f.Validate("CN", tc.now)
		if tc.ok != (err == nil) || !tc.ok && waypost.CodeOf(err) != waypost.CodeUnprocessableEntity {
			t.Errorf("%s at %s: %v", tc.birthday, tc.now, err)
		}
	}
	f := waypost.LeadFields{Birthday: ptr("2999-01-01")}
	if _, err := f.Validate("CN", noon); detailsOf(t, err) != "NullValue name" {
		t.Errorf("a 400 fault does not win over a 422 one: %v", err)
	}
}

func TestLeadCustomFields(t *testing.T) {
	t.Parallel()
	f := waypost.LeadFields{Name: "a", CustomFields: map[string]any{"gone": nil, "kept": "x"}}
	if _, err := f.Validate("CN", noon); err != nil || len(f.CustomFields) != 1 {
		t.Errorf("%v, %v", f.CustomFields, err)
	}
	for _, none := range []map[string]any{{}, {"gone": nil}} {
		f = waypost.LeadFields{Name: "a", CustomFields: none}
		if _, err := f.Validate("CN", noon); err != nil || f.CustomFields != nil {
			t.Errorf("%v, %v", f.CustomFields, err)
		}
	}
	many := map[string]any{}
	for i := range 64 {
		many[fmt.Sprint(i)] = true
	}
	f = waypost.LeadFields{Name: "a", CustomFields: many}
	if _, err := f.Validate("CN", noon); err != nil {
		t.Error(err)
	}
	many["one more"] = true
	if _, err := f.Validate("CN", noon); detailsOf(t, err) != "OutOfRange customFields" {
		t.Error(err)
	}
}

func TestLinesThatAreMore(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{"a\nb": "name: must be one line without tabs", "a\tb": "name: must be one line without tabs", "a\x00b": "name: must not contain control characters"} {
		f := waypost.LeadFields{Name: text}
		if _, err := f.Validate("CN", noon); err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

func TestEmailsThatAreMore(t *testing.T) {
	t.Parallel()
	for _, email := range []string{"ada lovelace@example.com", "ada@example.com bob@example.com", "ada@example.com;bob@example.com", "ada@example.com，bob@example.com", "Ada <ada@example.com>", "ada@example.com,"} {
		f := waypost.LeadFields{Name: "a", Email: &email}
		_, err := f.Validate("CN", noon)
		if err == nil || err.Error() != "email: is no e-mail address: it must be one alone, without blanks" {
			t.Errorf("%s: %v", email, err)
		}
	}
	email := "ada+tag@example.com"
	if _, err := (&waypost.LeadFields{Name: "a", Email: &email}).Validate("CN", noon); err != nil {
		t.Error(err)
	}
}
