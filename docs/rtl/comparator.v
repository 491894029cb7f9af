module comparator(score, limit, clk, rst, decided, replay, valid);
  reg \$auto$verilog_backend.cc:2505:dump_module$1  = 0;
  input [31:0] score;
  wire [31:0] score;
  input [31:0] limit;
  wire [31:0] limit;
  input clk;
  wire clk;
  input rst;
  wire rst;
  output decided;
  reg decided = 1'h0;
  output replay;
  reg replay = 1'h0;
  input valid;
  wire valid;
  wire [31:0] \$1 ;
  wire \$2 ;
  wire \$3 ;
  wire \$4 ;
  reg \$5 ;
  reg \$6 ;
  wire [31:0] \score$7 ;
  assign \$3  = \score$7  < 32'd4286578689;
  assign \$4  = \$2  & \$3 ;
  always @(posedge clk)
    decided <= \$5 ;
  always @(posedge clk)
    replay <= \$6 ;
  assign \$1  = score[31] ? 32'd4294967295 : 32'd2147483648;
  assign \score$7  = score ^ \$1 ;
  assign \$2  = \score$7  > limit;
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    \$5  = valid;
    if (rst) begin
      \$5  = 1'h0;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    \$6  = \$4 ;
    if (rst) begin
      \$6  = 1'h0;
    end
  end
endmodule
