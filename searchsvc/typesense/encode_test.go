package typesense

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"waypost"
	"waypost/searchsvc"
)

func TestEncode(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ in, want string }{
		{"搜索引擎", "搜索 索引 引擎 擎"},
		{"Go语言", "Go 语言 言"},
		{"a 学 b", "a \uE002 学 \uE002 b"},
		{"a  b", "a  b"},
		{"学\n生", "学 \n 生"},
		{"🚀🚀!", "🚀 🚀 !"},
		{"Straße, É 18", "Strasse, é 18"},
		{"x\x00\uE001\xFF", "x � �"},
		{"#Go phone+email C++17 F#", "# Go phone + email C++ 17 F#"},
		{"ﾃﾞｰﾀ 报\u200B销 ⽂", "デー ータ タ \uE002 报销 销 \uE002 文"},
		{"a👩🏽\u200D💻🇩🇪 1\uFE0F\u20E3", "a 👩\u200D💻 👩 💻 🇩🇪 \uE002 1"},
		{"", ""},
	} {
		if got := encode(tt.in); got != tt.want {
			t.Errorf("encode(%q) = %q, want %q", tt.in, got, tt.want)
		}
	}
	if got := encodeName("学生学a"); got != "\uE004 学生 生学 学 a \uE005 学 生" {
		t.Errorf("name %q", got)
	}
}

// All that is taken for Han without a look is.
func TestKindOf(t *testing.T) {
	t.Parallel()
	for r := rune(0); r <= unicode.MaxRune; r++ {
		if cjk := searchsvc.IsCJK(r); cjk != (kindOf(r) == paired) {
			t.Errorf("%U: CJK %t, kind %d", r, cjk, kindOf(r))
		}
	}
}

func TestBeginnings(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ in, beginnings, characters string }{
		{"Go 学生 go C++ 学", "g go c c+ c++", "学 生"},
		{"ÉTÉ #a ｶﾞ", "é ét été a", "ガ"},
		{strings.Repeat("a", 23) + "é" + "b", strings.Join(strings.Fields(stairs(23)+strings.Repeat("a", 23)+"é"), " ") + " d2d382853125c9c0d6d1a6dbe8de898e", ""},
		{"，", "", ""},
	} {
		if got := beginnings(tt.in); got != tt.beginnings {
			t.Errorf("%q begins with %q, want %q", tt.in, got, tt.beginnings)
		}
		if got := characters(tt.in); got != tt.characters {
			t.Errorf("%q has %q, want %q", tt.in, got, tt.characters)
		}
	}
	d := newDocument(tenantB("1", "Go 学", "生 x"))
	if d.Beginnings != "g go" || d.Characters != "学 生" || d.NameText+d.ContentText != "" {
		t.Errorf("got %+v", d)
	}
}

// stairs are 1 to n of the letter a.
func stairs(n int) string {
	var b strings.Builder
	for i := 1; i <= n; i++ {
		b.WriteString(strings.Repeat("a", i) + " ")
	}
	return b.String()
}

// FuzzEncode checks that a document gives back what it was made of, and that highlight
// tags in it mean nothing to decode.
func FuzzEncode(f *testing.F) {
	for _, s := range []string{"搜索 引擎", " a  学 b ", "。 。", "\uE002 x\x00\xFF", "か\u309A 𠮷野家 ｶﾅ\t한국", "👨\u200D👩 a", "  \n  ", "#a b+c C++17 ﬁ"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		s = strings.ToValidUTF8(s, "")
		d := newDocument(tenantB("1", s, s))
		if got := d.article(); got.Name != s || got.Content != s {
			t.Fatalf("%q came back as %q and %q", s, got.Name, got.Content)
		}
		for _, indexed := range []string{d.Name, d.Content} {
			tagged := strings.ReplaceAll(indexed, " ", " \uE000\uE001")
			if !utf8.ValidString(indexed) || decode(tagged) != decode(indexed) {
				t.Fatalf("%q is read as %q, and with tags as %q", indexed, decode(indexed), decode(tagged))
			}
		}
	})
}

func TestTenantKey(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 49)
	for _, tt := range []struct {
		stage  waypost.Stage
		tenant string
		want   string
	}{
		{waypost.StageRelease, "T-1", "542d31"},
		{waypost.StageTest, "T-1", "t542d31"},
		{waypost.StagePreRelease, "T-1", "p542d31"},
		{waypost.StageRelease, "a`", "6160"},
		{waypost.StageRelease, long[:48], strings.Repeat("61", 48)},
	} {
		if got := tenantKey(tt.stage, tt.tenant); got != tt.want {
			t.Errorf("tenantKey(%s, %s) = %q, want %q", tt.stage, tt.tenant, got, tt.want)
		}
	}
	if got := tenantKey(waypost.StageTest, long); len(got) != 66 || !strings.HasPrefix(got, "th") || got == tenantKey(waypost.StageTest, long+"a") {
		t.Errorf("key of a long id: %q", got)
	}
}
