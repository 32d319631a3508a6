package nodes

var split = Type{
	Name:   "split",
	Schema: "Split",
	About:  "Takes an arm by chance, for one lead and journey always the same.",
	Members: []Member{
		{
			Name: "arms", Kind: List, Required: true, Min: 2, Max: 20, Way: "arm",
			Of: []Member{
				{Name: "weight", Kind: Number, Required: true, Min: 1, Max: 10_000, About: "Its share by the sum of all."},
				next,
			},
			Drawn: Words{"Arm {n}: {share}", "分组 {n}：{share}"},
			Said:  Words{"Arm {arm}: {share} of the leads", "分组 {arm}：{share} 的线索"},
		},
		{
			Name: "winner", Kind: Object,
			Of: []Member{
				{Name: "by", Kind: Text, Required: true, Values: []string{"goal"}},
				{Name: "after", Kind: Duration, Also: "1 s to 366 days"},
				{Name: "leads", Kind: Number, Min: 1, Max: 10_000_000},
			},
			Rules: "oneOf: [{required: [after]}, {required: [leads]}]",
			About: "When the arms are compared by the goal: `after` the first enrollment took one, or once so many `leads` have. From\n" +
				"then on all go to the better arm, if it is significantly better.",
			Also: "one of `after` and `leads`",
		},
	},
	Enters: PhaseDecide,
	Asks:   "split",
	Title:  Words{"Split", "随机分流"},
	Hint:   Words{"Share leads out by chance", "按比例随机分配"},
	Icon:   "M12 21v-7M12 14 5 7M12 14l7-7M5 12V7h5M14 7h5v5",
	Colour: Choose,
	Guide: "sends each lead down one of 2 to 20 `arms`, by their `weight` (1 to 10,000); with `winner` all down the better one, " +
		"[once that is known](#winners)",
	Rule: "takes an arm; a lead always the same, until one has [won](#goals-control-groups-and-winners)",
	Examples: []string{
		`{"arms":[{"weight":1},{"weight":2},{"weight":1}]}`,
		`{"arms":[{"weight":99},{"weight":1}]}`,
	},
	Inserted: `{"arms":[{"weight":50},{"weight":50}]}`,
}
