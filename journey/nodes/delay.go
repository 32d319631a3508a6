package nodes

var delay = Type{
	Name:     "delay",
	Schema:   "Delay",
	Members:  []Member{{Name: "for", Kind: Duration, Required: true}, next},
	Enters:   PhaseWait,
	Waits:    ForTime,
	Title:    Words{"Delay", "延时"},
	Hint:     Words{"Wait a length of time", "等待一段时间"},
	Summary:  Words{"Wait {for}", "等待 {for}"},
	Icon:     "M3 12a9 9 0 1 0 18 0a9 9 0 1 0-18 0M12 7v5l3.2 2",
	Colour:   Pause,
	Guide:    "waits `for` a duration, then goes to `next`",
	Rule:     "waits, at least `1ms`",
	Examples: []string{`{"for":"17m"}`, `{"for":"1ms"}`, `{"for":"25h"}`, `{"for":"P3D"}`},
	Inserted: `{"for":"P1D"}`,
}
