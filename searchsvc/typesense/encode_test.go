package typesense

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"waypost"
)

func TestEncode(t *testing.T) {
	t.Parallel()
	hex := func(s string) string { return fmt.Sprintf("#%x", s) }
	long := strings.Repeat("ab", 46)
	for _, tt := range []struct{ in, want string }{
		{"搜索引擎", "搜索 索引 引擎 擎"},
		{"Go语言,學\n生", "go 语言 言 学 生"},
		{"Straße É18", "strasse e18 " + hex("é18") + "#"},
		{"→ a±b🚀", hex("→") + "# a " + hex("±") + "# b " + hex("🚀") + "#"},
		{"#Go phone+email C++17 F#", "go phone email c+p+p 17 f+s"},
		{"чай", hex("чаи") + " " + hex("чай") + "#"},
		{"คู่มือ", hex("คู่มื") + "# " + hex("มือ") + "# " + hex("อ") + "#"},
		{"々木", hex("々木") + "# 木"},
		{"👩🏽\u200D💻", hex("👩\u200D💻") + "# " + hex("👩") + "# " + hex("💻") + "#"},
		{long, hash(long) + "+ " + long[:90] + "+ " + hash(long[:91]) + " " + hash(long)},
		{strings.Repeat("ж", 46), hash(strings.Repeat("ж", 46)) + "+ " + hex(strings.Repeat("ж", 22)) + "+" + hashesOf("ж", 23, 46)},
		{" \x00\uE001\xFF，", hex("\uFFFD") + "#"},
		{"", ""},
	} {
		if got := encode(tt.in, map[string]bool{}); got != tt.want {
			t.Errorf("encode(%q) = %q, want %q", tt.in, got, tt.want)
		}
	}
	seen := map[string]bool{}
	if got := encodeName("学生学a", seen); got != "学生 生学 学 a 学 生" || len(seen) != 2 {
		t.Errorf("name %q, %v", got, seen)
	}
}

// hashesOf are the hashes of a letter so many times.
func hashesOf(letter string, from, to int) string {
	var b strings.Builder
	for n := from; n <= to; n++ {
		b.WriteString(" " + hash(strings.Repeat(letter, n)))
	}
	return b.String()
}

func TestBeginnings(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ in, beginnings string }{
		{"Go 学生 go C++ 学", "g go c c+p c+p+p"},
		{"xж1 C#", fmt.Sprintf("x x#%x x#%x c c+s", "ж", "ж1")},
		{"ÉTÉ #a ｶﾞ", "e et ete a"},
		{"да", fmt.Sprintf("#%x #%x", "д", "да")},
		{strings.Repeat("a", 26), strings.TrimSpace(stairs(24)) + " " + hash(strings.Repeat("a", 25)) + " " + hash(strings.Repeat("a", 26))},
		{"，", ""},
	} {
		if got := beginnings(tt.in); got != tt.beginnings {
			t.Errorf("%q begins with %q, want %q", tt.in, got, tt.beginnings)
		}
	}
	d := newDocument(tenantB("1", "Go 学", "生 x"))
	if d.Beginnings != "g go" || d.Characters != "学 生" || d.NameText != "Go 学" || d.ContentText != "生 x" {
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

// FuzzEncode checks that a document gives back what it was made of, and that Typesense leaves
// its tokens as they are: none is longer than it takes, and none holds a character that it
// would write in another way.
func FuzzEncode(f *testing.F) {
	for _, s := range []string{"搜索 引擎", " a  学 b ", "。 。", "\uE002 x\x00\xFF", "か\u309A 𠮷野家 ｶﾅ\t한국", "👨\u200D👩 a", "  \n  ", "#a b+c C++17 ﬁ", "คู่มือ é" + strings.Repeat("ж", 99)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		s = strings.ToValidUTF8(s, "")
		d := newDocument(tenantB("1", s, s))
		if got := d.article(); got.Name != s || got.Content != s {
			t.Fatalf("%q came back as %q and %q", s, got.Name, got.Content)
		}
		for _, indexed := range []string{d.Name, d.Content, d.Beginnings, d.Characters} {
			fields := strings.Fields(indexed)
			if !utf8.ValidString(indexed) || !slices.Equal(tokens(indexed), fields) {
				t.Fatalf("%q is indexed as %q", s, indexed)
			}
			for _, token := range fields {
				if !isKept(token) && strings.Trim(token, "0123456789abcdefghijklmnopqrstuvwxyz+#") != "" {
					t.Fatalf("%q is indexed as %q", s, token)
				}
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
