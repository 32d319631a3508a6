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
		{"Straße, 18", "Straße, 18"},
		{"x\x00\uE001\xFF", "x � � �"},
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

// FuzzEncode checks that decode gives back what was encoded, with highlight tags
// in it or not.
func FuzzEncode(f *testing.F) {
	for _, s := range []string{"搜索 引擎", " a  学 b ", "。 。", "\uE002 x\x00\xFF", "か\u309A 𠮷野家 ｶﾅ\t한국", "👨\u200D👩 a", "  \n  "} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		want := strings.Trim(clean(s), " ")
		for _, indexed := range []string{encodeName(s), encodeContent(s)} {
			if !utf8.ValidString(indexed) {
				t.Fatalf("not valid UTF-8: %q", indexed)
			}
			if got := strings.Trim(decode(indexed), " "); got != want {
				t.Fatalf("%q came back as %q from %q", want, got, indexed)
			}
			tagged := strings.ReplaceAll(indexed, " ", " \uE000\uE001")
			if got := strings.Trim(decode(tagged), " "); got != want {
				t.Fatalf("%q came back as %q from %q", want, got, tagged)
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
